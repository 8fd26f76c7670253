"""`python -m ctxr` is `ctxr`."""

from ctxr.cli.app import main

if __name__ == "__main__":
    main()
