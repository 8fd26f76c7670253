"""Everything that decides the training of an entailment classifier, as numbers and names."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from ctxr.engine.options import Choices, Range
from ctxr.models.training.recipe import Count, Natural, Recipe, Share
from ctxr.store.kinds import MODEL

ENTAILMENT = "entailment"  # the only variant


@dataclass(frozen=True)
class ClassifierRecipe(Recipe):
    """How a classifier is trained: branches, heads, and what they learn from."""

    DOCS: ClassVar[str] = "docs/models.md and docs/entailment.md"

    variant: Annotated[str, Choices((ENTAILMENT,))] = ENTAILMENT
    """A classifier."""
    text: str = "bert:google-bert/bert-base-uncased"
    """Text branch, as `find_text` takes it; "shared" for the layers over words of the image branch;
    empty for none."""
    image: str = "albef:ALBEF"
    """Image branch, as `find_image` takes it; empty for none."""
    frozen_text: bool = False
    """The text branch stays as it is, and is asked once; else it learns too."""
    scalar_gate: bool = False
    """Gates of one number; else one for each dimension."""
    head_width: Count = 0
    """Of the heads' hidden layers; 0 for that of the branches."""
    dropout: Share = 0.1
    """Before each head."""
    masking: Share = 0.4
    """Share of patches that are blackened to make a negative of a positive; 0 = no masking."""
    masked: Count = 4
    """Pictures of a step that are masked, at most, however many passes it takes
    (paper, section 3.2; its Table 2 has 13 of 96)."""
    text_data: bool = True
    """Pairs of texts are learned from."""
    image_data: bool = True
    """Pairs of pictures without premise are learned from."""
    joint_data: bool = True
    """Pairs of both are learned from."""
    wanted_precision: Annotated[float, Range(0, 1, "a share above 0 and up to 1", above=True)] = 0.8
    """The threshold is the lowest that reaches it on dev."""
    image_size: Count = 384
    """Pixels of a side that a published vision transformer looks at; 0 as it was trained."""
    width: Natural = 128
    """Of branches that start from nothing."""
    vision_layers: Natural = 2
    """Of an image branch that starts from nothing."""
    text_layers: Natural = 2
    """Of a text branch that starts from nothing."""
    fusion_layers: Natural = 2
    """Of a fusion that starts from nothing."""

    def inputs(self) -> Iterator[tuple[str, str]]:
        """See `Recipe`."""
        yield "image", MODEL
        if self.text != SHARED:
            yield "text", MODEL

    def theta(self, premise: bool, image: bool) -> list[bool]:
        """Which head judges a claim: over both where there are both, else of the branch for the premise or the picture.

        A classifier with one branch reads an empty premise or a black picture for missing input.
        """
        head = TEXT if self.text else IMAGE
        if self.text and self.image:
            head = JOINT if premise and image else IMAGE if image else TEXT
        return [head == kind for kind in (TEXT, IMAGE, JOINT)]

    def rules(self) -> Iterator[tuple[str, str]]:
        """Branches that exist and fit each other, and data to learn from."""
        yield from super().rules()
        if not self.image and self.text in ("", SHARED):
            yield "a classifier needs a text branch or an image branch", "--set text=random:bert-tiny"
        if self.frozen_text and self.text in ("", SHARED):
            yield "frozen_text needs a text branch of its own", "--set text=bert:DIRECTORY"
        if not (self.text_data or self.image_data or self.joint_data):
            yield "without data of any kind nothing is learned", "--set joint_data=true"
        if self.width % 32:
            yield f"width = {self.width} is not a multiple of 32", "--set width=128"


# columns of the indicators and of the heads: textual, visual, multi-modal
TEXT, IMAGE, JOINT = 0, 1, 2


# text branch of that name: the layers over words of the image branch (paper, Table 3, without BERT)
SHARED = "shared"

SEED = 0  # of the first weights of branches that start from nothing
