import random
import shutil
import struct
import unicodedata
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from docs.examples.shapes import Shapes
from vgp.base.exits import UserError
from vgp.data.image_labels import Damaged, pixels
from vgp.data.prepare import prepare
from vgp.data.rows import open_rows
from vgp.data.text import split_of

TASK = "docs.examples.shapes:Shapes"


@pytest.fixture
def shapes(tmp_path: Path) -> Path:
    """Sixty small images, of two classes, two sizes and two formats."""
    draw = random.Random(0)
    for number in range(60):
        shape = "circle" if number % 2 else "square"
        side = draw.choice([40, 64])
        image = Image.new("RGB", (side, side + 10), (draw.randrange(60), 0, 0))
        corner = draw.randrange(4, 12)
        box = (corner, corner, corner + side // 2, corner + side // 2)
        pen = ImageDraw.Draw(image)
        (pen.ellipse if number % 2 else pen.rectangle)(box, fill=(255, 255, 255) if number % 2 else (90, 90, 90))
        path = tmp_path / "shapes" / shape / f"{number:02}.{'png' if number % 3 else 'jpg'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path)
    return tmp_path / "shapes"


def test_a_folder_of_images_becomes_rows_that_a_model_learns_from(shapes, tmp_path):
    made = prepare(TASK, str(shapes), tmp_path / "data", workers=1)
    assert {split: made.rows(split) for split in made.splits} == {"train": 44, "validation": 2, "test": 14}
    assert made.column("image").width == 32 * 32 and made.rows_read == 60
    columns = {name: torch.from_numpy(values) for name, values in open_rows(tmp_path / "data", "train").columns.items()}
    task = Shapes(made.options)
    torch.manual_seed(0)
    model = task.model(made)
    losses = []
    for _ in range(30):
        losses.append(task.loss(model, columns))
        for weights, slope in zip(model.parameters(), torch.autograd.grad(losses[-1], model.parameters()), strict=True):
            weights.data -= 1e-2 * slope.sign()
    test = {name: torch.from_numpy(values) for name, values in open_rows(tmp_path / "data", "test").columns.items()}
    right = task.predict(model, test).argmax(1) == test["label"]
    assert losses[-1] < 0.5 * losses[0] and right.float().mean() > 0.8


def test_a_table_gives_classes_and_splits_and_images_without_a_line_are_counted(shapes, tmp_path):
    lines = ["\ufefffile,Label,split"]
    for n, path in enumerate(sorted(shapes.rglob("*.*"))):
        if n != 7:
            lines.append(f"{path.relative_to(shapes)},{path.parent.name},{'test' if n % 3 else 'train'}")
    (shapes / "labels.csv").write_text("\n".join(lines), encoding="utf-8")
    (shapes / "README.txt").write_text("by hand")
    made = prepare(TASK, str(shapes), tmp_path / "data", workers=1)
    assert {split: made.rows(split) for split in made.splits} == {"test": 39, "train": 20}
    assert made.rows_dropped == {"no line in the table": 1} and made.rows_read == 60
    assert made.notes == ("Ignored because their names are not those of images: 1 file (README.txt).",)


@pytest.mark.parametrize("wrong", ["cut", "text", "empty"])
def test_a_damaged_image_is_named_or_dropped(shapes, tmp_path, wrong):
    path = shapes / "square" / "04.png"
    data = path.read_bytes()
    path.write_bytes({"cut": data[: len(data) // 2], "text": b"no image", "empty": b""}[wrong])
    with pytest.raises(UserError, match=r"square/04.png is .*damaged=drop"):
        prepare(TASK, str(shapes), tmp_path / "data", workers=1)
    assert not (tmp_path / "data").exists()
    made = prepare(TASK, str(shapes), tmp_path / "data", options={"damaged": "drop"}, workers=1)
    assert made.rows_dropped == {"damaged": 1} and sum(map(made.rows, made.splits)) == 59
    assert "square/04.png" in made.notes[0]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("labels.csv", "file,label\ncircle/01.png,cirle\n", "labels.csv, line 2: 'cirle' is not a class.*mean circle"),
        ("labels.csv", "file,label\ncircle/99.png,circle\n", "labels.csv, line 2: there is no image 'circle/99.png'"),
        ("labels.csv", "image,label\n", "labels.csv has the columns image, label; it needs file and label"),
        ("labels.csv", "file,label\ncircle/01.png,\n", "line 2: 'circle/01.png' has no label"),
        ("labels.csv", "file,label\ncircle/01.png,circle\ncircle/01.png,square\n", "line 3 repeats .* of line 2"),
        ("labels.csv", "file,label,split\ncircle/01.png,circle,tset\n", "the split 'tset' is none of train"),
        ("loose.png", "", "loose.png is not in a folder named after its class"),
        ("oval/1.png", "", "oval/1.png: 'oval' is not a class.*circle, square"),
    ],
)
def test_an_unclear_class_is_reported_with_its_place(shapes, tmp_path, name, text, message):
    (shapes / name).parent.mkdir(exist_ok=True)
    (shapes / name).write_text(text)
    with pytest.raises(UserError, match=message):
        prepare(TASK, str(shapes), tmp_path / "data", workers=1)


def test_pixels_are_upright_scaled_and_of_sixteen_bits_the_upper_eight(tmp_path):
    deep = Image.fromarray(np.full((8, 8), 0x4000, np.uint16))
    deep.save(tmp_path / "deep.png")
    assert set(pixels("deep", (tmp_path / "deep.png").read_bytes(), 4, 1)) == {0x40}
    turned = Image.new("L", (8, 8))
    turned.paste(255, (0, 0, 8, 4))  # white above
    exif = Image.Exif()
    exif[0x0112] = 3  # shown upside down
    turned.save(tmp_path / "turned.png", exif=exif)
    image = np.frombuffer(pixels("turned", (tmp_path / "turned.png").read_bytes(), 4, 3), np.uint8).reshape(4, 4, 3)
    assert image[0].max() == 0 and image[3].min() == 255
    see_through = Image.new("P", (9, 5))
    see_through.save(tmp_path / "palette.gif")
    assert len(pixels("palette", (tmp_path / "palette.gif").read_bytes(), 6, 3)) == 108


def test_the_split_of_an_image_follows_from_its_name_alone(shapes, tmp_path):
    def homes(folder: Path) -> dict[int, str]:
        return {
            row: split
            for split in ("train", "validation", "test")
            for row in open_rows(folder, split).columns["row_id"].tolist()
        }

    first = prepare(TASK, str(shapes), tmp_path / "one", workers=1)
    Image.new("L", (4, 4)).save(shapes / "circle" / "000.png")
    second = prepare(TASK, str(shapes), tmp_path / "two", workers=1)
    one, two = homes(tmp_path / "one"), homes(tmp_path / "two")
    assert one.items() <= two.items() and len(two) == 61
    assert first.fingerprint != second.fingerprint


class Sizes(Shapes):
    classes = ("größe", "square")


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_letters_with_marks_are_the_same_however_a_folder_or_a_table_writes_them(shapes, tmp_path, form):
    (shapes / "circle").rename(shapes / unicodedata.normalize(form, "größe"))
    task = f"{__name__}:Sizes"
    made = prepare(task, str(shapes), tmp_path / "folders", workers=1)
    assert sum(map(made.rows, made.splits)) == 60
    other = {"NFC": "NFD", "NFD": "NFC"}[form]
    lines = [f"{p.relative_to(shapes)},{'square' if n % 2 else 'größe'}" for n, p in enumerate(shapes.rglob("*.*"))]
    (shapes / "labels.csv").write_text(unicodedata.normalize(other, "\n".join(["file,label", *lines])))
    made = prepare(task, str(shapes), tmp_path / "table", workers=1)
    assert sum(map(made.rows, made.splits)) == 60


def test_images_that_test_what_was_learnt_by_heart_are_counted(shapes, tmp_path):
    for path in sorted((shapes / "circle").iterdir())[:10]:
        shutil.copy(path, path.with_stem(f"{path.stem}-copy"))
    for number in range(30):
        (shapes / "circle" / f"empty-{number}.png").touch()
    made = prepare(TASK, str(shapes), tmp_path / "data", options={"damaged": "drop"}, workers=1)
    splits = {path.stem: split_of(f"{path.parent.name}/{path.name}", 0.05, 0.2) for path in shapes.rglob("*.*")}
    pairs = [(splits[stem], splits[stem.removesuffix("-copy")]) for stem in splits if stem.endswith("-copy")]
    parted = sum({"train", "test"} == set(pair) for pair in pairs)
    sentence = f"images of the test split {parted} are in the train split too, byte for"
    assert parted and any(sentence in note for note in made.notes)


def test_whatever_a_decoder_raises_is_a_damaged_image_and_its_warnings_are_not_shown():
    flags = struct.pack("<4s7I44x8I", b"DDS ", 124, 4111, 8, 8, 24, 0, 0, 32, 128, 0, 24, 255, 255, 255, 0)
    with pytest.raises(Damaged, match=r"a.png is damaged: Unknown pixel format flags 128. Save it again"):
        pixels("a.png", flags.ljust(300, b"\0"), 8, 1)
    Image.new("L", (8, 8), 7).save(file := BytesIO(), "TIFF")
    tiff = bytearray(file.getvalue())
    tiff[12], tiff[14] = 3, 2  # two widths, of which pillow warns; tests take warnings for errors
    assert pixels("a.tif", bytes(tiff), 2, 1) == bytes([7] * 4)
