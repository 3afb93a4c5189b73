"""FaceScrub (Ng and Winkler, 2014), or any other faces in a folder per person."""

from typing import Annotated, Any

from annotated_types import Ge, Le, MultipleOf

from smashbench.datasets.image_folder import ImageFolder


class FaceScrub(ImageFolder):
    """Faces, a folder per person; the class is the person.

    FaceScrub's publishers list addresses of images, many of which are gone, so it cannot be
    downloaded here: bring its cropped faces, or another set, e.g. the AT&T (ORL) faces.

    Args:
        folder: below that of all data sets.
        size: pixels a side, a multiple of 16.
        options: the other ones of ``ImageFolder``.
    """

    name = "facescrub"
    how = "put cropped faces there, a folder per person"

    def __init__(
        self,
        *,
        folder: str = "facescrub",
        size: Annotated[int, Ge(32), Le(1024), MultipleOf(16)] = 48,
        **options: Any,
    ) -> None:
        super().__init__(folder=folder, size=size, **options)
