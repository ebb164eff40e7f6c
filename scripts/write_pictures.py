#!/usr/bin/env python3
# Usage: scripts/write_pictures.py IDX_FOLDER FOLDER [--train N] [--test N]     (--help)
"""Writes a folder of PNG files, as `dataset: {name: image_folder}` reads it, from four IDX files like those of mnist:

    write_pictures.py datasets/mnist-10k pictures --train 2000 --test 500

writes FOLDER/train/CLASS/NUMBER.png and FOLDER/test/CLASS/NUMBER.png, from the first images of each part. Needs only Python.
"""
import argparse
import gzip
import pathlib
import struct
import sys
import zlib

MAGIC_OF_IMAGES, MAGIC_OF_LABELS = 2051, 2049


def read(folder, name):
    """The bytes of an IDX file, plain or gzip."""
    for path, open_file in ((folder / name, open), (folder / f"{name}.gz", gzip.open)):
        if path.exists():
            with open_file(path, "rb") as file:
                return path, file.read()
    sys.exit(f"write_pictures: expected {folder / name}, plain or with .gz, got neither")


def images_of(folder, part):
    path, data = read(folder, f"{part}-images-idx3-ubyte")
    magic, count, height, width = struct.unpack(">IIII", data[:16].ljust(16, b"\0"))
    if magic != MAGIC_OF_IMAGES or len(data) != 16 + count * height * width:
        sys.exit(f"write_pictures: {path}: expected an IDX file of images")
    size = height * width
    return width, height, [data[16 + i * size : 16 + (i + 1) * size] for i in range(count)]


def labels_of(folder, part):
    path, data = read(folder, f"{part}-labels-idx1-ubyte")
    magic, count = struct.unpack(">II", data[:8].ljust(8, b"\0"))
    if magic != MAGIC_OF_LABELS or len(data) != 8 + count:
        sys.exit(f"write_pictures: {path}: expected an IDX file of labels")
    return list(data[8:])


def png(width, height, pixels):
    """A PNG file of gray pixels, one byte each (ISO/IEC 15948)."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + pixels[y * width : (y + 1) * width] for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("idx_folder", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--train", type=int, metavar="N", help="the first N images to train on; all by default")
    parser.add_argument("--test", type=int, metavar="N", help="the first N images to test on; all by default")
    arguments = parser.parse_args()
    if arguments.folder.exists():
        sys.exit(f"write_pictures: {arguments.folder} already exists; name another folder")
    for part, name, most in (("train", "train", arguments.train), ("t10k", "test", arguments.test)):
        width, height, images = images_of(arguments.idx_folder, part)
        for number, (pixels, label) in enumerate(zip(images[:most], labels_of(arguments.idx_folder, part))):
            folder = arguments.folder / name / str(label)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{number:05}.png").write_bytes(png(width, height, pixels))


if __name__ == "__main__":
    main()
