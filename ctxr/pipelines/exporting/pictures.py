"""The pictures of a dataset, each compared with its recorded hash before anything is made of it."""

from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image as Pillow

from ctxr.data.atomic import link_or_copy, write_bytes
from ctxr.data.dataset import Dataset
from ctxr.data.hashing import sha256_bytes, sha256_file
from ctxr.data.images import encode_jpeg, read_image
from ctxr.data.records import Image
from ctxr.errors import DataError, UsageError
from ctxr.pipelines.exporting.origin import stays_inside

_ORIENTATION = 0x0112


@dataclass(frozen=True)
class ExportPictures:
    """Gives the pictures of `dataset` as files or bytes.

    Every method raises DataError, naming the image, for a picture that is missing, was changed, or lies outside the dataset, and
    UsageError where the dataset came without pictures.
    """

    dataset: Dataset
    _compared: set[str] = field(default_factory=set, repr=False, compare=False)

    def file(self, image: Image) -> Path:
        """Where the picture lies; its content has not been looked at."""
        file = self.dataset.picture(image)
        root = self.dataset.root
        if file is None or root is None:
            raise UsageError(
                f"the picture of {image.id} is not at hand: {self.dataset.name} holds texts only",
                hint="name the folder with the pictures when the dataset is read",
            )
        if not stays_inside(image.path) or not file.resolve().is_relative_to(root.resolve()):
            raise DataError(f"{image.id}: the path {image.path!r} does not stay inside {root}", hint=_cure(root))
        return file

    def content(self, image: Image) -> bytes:
        """The file's bytes."""
        file = self.file(image)
        try:
            content = file.read_bytes()
        except OSError as error:
            raise _unreadable(image, file, error) from error
        _compare(image, file, sha256_bytes(content))
        return content

    def place(self, image: Image, copy: Path) -> None:
        """Make `copy` the same file: a hard link where the file system can."""
        file = self.checked(image)
        link_or_copy(file, copy)

    def checked(self, image: Image) -> Path:
        """The picture's file, which holds what was recorded."""
        file = self.file(image)
        if image.id in self._compared:
            return file
        try:
            _compare(image, file, sha256_file(file))
        except OSError as error:
            raise _unreadable(image, file, error) from error
        self._compared.add(image.id)
        return file

    def place_jpeg(self, image: Image, copy: Path) -> bool:
        """Make `copy` an upright JPEG of the picture; whether it had to be encoded anew, because it was none."""
        file = self.checked(image)
        if _is_upright_jpeg(file):
            link_or_copy(file, copy)
            return False
        write_bytes(copy, encode_jpeg(read_image(file)), durable=False)
        return True


def suffix_of(image: Image) -> str:
    """The picture's file type in lower case, with its dot."""
    return Path(image.path).suffix.lower() or ".jpg"


def _is_upright_jpeg(file: Path) -> bool:
    try:
        with Pillow.open(file) as opened:
            return opened.format == "JPEG" and opened.getexif().get(_ORIENTATION, 1) == 1
    except (OSError, ValueError, SyntaxError) as error:
        raise DataError(f"{file} is not a readable picture ({error})") from error


def _compare(image: Image, file: Path, found: str) -> None:
    if found != image.sha256:
        raise DataError(
            f"{image.id}: {file} was changed since it was written (sha256 {found[:12]}…, not {image.sha256[:12]}…)",
            hint=_cure(file.parent),
        )


def _unreadable(image: Image, file: Path, error: OSError) -> DataError:
    if isinstance(error, FileNotFoundError):
        return DataError(f"{image.id}: the picture {file} is missing", hint=_cure(file.parent))
    return DataError(f"{image.id}: {file} cannot be read: {error.strerror}", hint=f"chmod +r {file}")


def _cure(folder: Path) -> str:
    return f"ctxr doctor names all that is wrong with the artifact around {folder}, and how to make it anew"
