"""What an archive says of itself: weights by their identities, how to check it; and what must be in its commit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from common.errors import InputError
from emma.audit.verify import Results
from emma.backbones.config import ModelConfig, config_file, load_model_config

#: Members that are made for the archive, beside its sums and its description.
GUIDE, WEIGHTS = "VERIFY.md", "weights.json"

#: What tells the name of an archive with embeddings from that without.
WITH_EMBEDDINGS = "-with-embeddings"


def weights_record(results: Results) -> bytes:
    """Which weights every row rests on: their SHA-256, licence, and where they come from."""
    models: dict[str, dict[str, Any]] = {}
    for model in results.models():
        run = results.run(model)
        path = results.project and results.project / "config" / "models" / f"{model}.yaml"
        known = path is not None and not results.is_submitted(model) and config_file(path).is_file()
        config = load_model_config(path) if path is not None and known else None
        models[model] = {
            "kind": run.kind,
            "weights_sha256": run.run_manifest.model_provenance.weights_sha256,
            "licence": config and config.licence,
            "file": config and config.pinned,
            "link": config and config.link,
        }
    return json.dumps({"models": models}, indent=1, ensure_ascii=False).encode() + b"\n"


def guide(name: str, commit: str, release_hash: str, embeddings: bool) -> bytes:
    """Three commands for a reader who has the archive alone, and what they prove.

    Args:
        name: the archive's file name.
        commit: the hash of the code's commit.
        release_hash: of the data release.
        embeddings: whether the archive carries them.
    """
    folder = name.removesuffix(".zip")
    said = "verified, rescored: every number follows from the embeddings in this archive (status 0)"
    if not embeddings:
        said = "only consistent: every number follows from the predictions in this archive (status 3)"
    return f"""# {name}

With Python 3.11, beside the archive:

```
unzip {name} -d {folder}
python -m pip install -r {folder}/envs/requirements.txt ./{folder}
python {folder}/scripts/verify.py {name}
```

The last line says: {said}. With `--deep` scenes are made again from the recipe, and embeddings from them, at places
that you draw. `docs/audit.md` says what each level proves.

These commands run the code of the archive, so that they show that it agrees with itself. To take nobody's word, get
the code at commit {commit} from elsewhere and give its `scripts/verify.py` this archive: it runs nothing of it.
The data release is {release_hash}. Weights by SHA-256 and licence: `{WEIGHTS}`; libraries: `envs/requirements.txt`.
""".encode()


def uncommitted(models: Mapping[str, ModelConfig], known: Iterable[str], project: Path) -> Iterator[str]:
    """What the rows rest on and the commit lacks, a line each: configs, pinned weights, modules of the project.

    Args:
        models: the configs of the models by name.
        known: names of the commit's files.
        project: the project's folder.
    """
    files = set(known)
    for name, config in models.items():
        own = config_file(project / "config" / "models" / f"{name}.yaml").relative_to(project).as_posix()
        if own not in files:
            yield f"{own}: not in the commit"
        if config.pinned is not None and Path(config.pinned).as_posix() not in files:
            yield f"{config.pinned}: the weights of {name} are not in the commit"
        functions = [config.factory, config.pretrain and config.pretrain.function]
        for module in [reference.partition(":")[0] for reference in functions if reference]:
            stem = module.replace(".", "/")
            here = [place for place in (f"{stem}.py", f"{stem}/__init__.py") if (project / place).is_file()]
            if here and here[0] not in files:
                yield f"{here[0]}: the code of {name} is not in the commit"


def check_committed(lacking: Iterable[str], project: Path) -> None:
    """InputError that names what no archive of the commit would hold."""
    if found := list(dict.fromkeys(lacking)):
        raise InputError(f"{project}: {'; '.join(found[:5])}; expected every file that a row rests on in the commit")
