"""Archives for tests."""

import io
import tarfile


def write_archive(file, contents, *others):
    """A .tar.gz archive of these files, by name, and of other members such as links."""
    with tarfile.open(file, "w:gz") as archive:
        for other in others:
            archive.addfile(other)
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
