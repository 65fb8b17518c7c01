"""The pixels of an image file: decoded by pillow, cut to a square, of one size."""

import io
import warnings
from typing import TYPE_CHECKING

import numpy as np

from vgp.base.exits import UserError

if TYPE_CHECKING:
    from PIL.Image import Image

#: More in one image are an attack, or a mistake.
MOST_PIXELS = 200_000_000


class Damaged(UserError):
    """A file that is no image which pillow can decode."""


def pixels(name: str, data: bytes, size: int, channels: int) -> bytes:
    """The middle square of an image, as size * size * channels bytes.

    Raises:
        Damaged: it cannot be decoded.
    """
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ModuleNotFoundError:
        raise UserError("images are decoded by the package pillow: pip install pillow.") from None
    Image.MAX_IMAGE_PIXELS = None  # we say it in our words
    try:
        # Warnings are of metadata that nobody reads.
        with warnings.catch_warnings(action="ignore"), Image.open(io.BytesIO(data)) as image:
            if image.width * image.height > MOST_PIXELS:
                raise Damaged(f"{name} has {image.width:,} x {image.height:,} pixels; {MOST_PIXELS:,} are the most.")
            upright = ImageOps.exif_transpose(_in_bytes(name, image))
            square = ImageOps.fit(upright.convert("RGB" if channels == 3 else "L"), (size, size), _BILINEAR)
            return square.tobytes()
    except UnidentifiedImageError:
        kind = "is empty" if not data else "is no image that can be decoded"
        raise Damaged(f"{name} {kind}: {_FIX}") from None
    except (UserError, MemoryError):
        raise
    except Exception as error:  # each of pillow's decoders raises what it likes
        raise Damaged(f"{name} is damaged: {error}. {_FIX.capitalize()}") from None


_FIX = "write it anew, leave it out, or set damaged=drop."
#: `PIL.Image.Resampling.BILINEAR`; pillow averages over all pixels that become one.
_BILINEAR = 2


def _in_bytes(name: str, image: "Image") -> "Image":
    """Of 16 bits a pixel the upper eight: pillow itself would make all but the darkest white."""
    from PIL import Image

    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.int64)
        if values.min() < 0 or values.max() > 0xFFFF:
            raise Damaged(
                f"{name} has pixels of {image.mode} beyond 16 bits: write it with 8 or 16. {_FIX.capitalize()}"
            )
        upright = Image.fromarray((values >> 8).astype(np.uint8))
        upright.info = image.info
        return upright
    if image.mode == "F":
        raise Damaged(f"{name} has pixels that are fractions: write it with 8 or 16 bits. {_FIX.capitalize()}")
    return image
