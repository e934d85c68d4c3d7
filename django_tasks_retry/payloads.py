"""Payloads that do not stand in their row as they are: encrypted by PAYLOAD_KEYS, or as files of PAYLOAD_STORAGE.

Both take the place of JSON as `{"$payload": {…}}`. A file bears the id of its task, and only that task reads or deletes
it, so that a row which somebody planted reaches no other file.
"""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any, Protocol
from uuid import UUID

from django.core.files.base import ContentFile
from django.core.files.storage import storages

from .conf import QueueOptions, forgotten, options
from .errors import NewerFormat, PayloadUnavailable
from .rules.names import time_of
from .rules.payload import MOST_BYTES, dump

logger = logging.getLogger("django_tasks_retry")
PAYLOAD = "$payload"
VERSION = 1


class Call(Protocol):
    @property
    def id(self) -> UUID: ...
    @property
    def backend(self) -> str: ...
    @property
    def args(self) -> Any: ...
    @property
    def kwargs(self) -> Any: ...


def is_hidden(data: Any) -> bool:
    return type(data) is dict and len(data) == 1 and type(data.get(PAYLOAD)) is dict


@forgotten
@cache
def hides(backend: str) -> bool:
    """Return whether payloads of this backend may be encrypted or offloaded."""
    chosen = options(backend)
    return bool(chosen.payload_keys or chosen.payload_storage)


@cache
def cipher(keys: tuple[str, ...]) -> Any:
    from cryptography.fernet import Fernet, MultiFernet

    return MultiFernet([Fernet(key) for key in keys])


# Write


def hidden(text: str, backend: str, task_id: UUID, name: str = "") -> dict[str, Any] | None:
    """Return what is stored in place of this JSON; None if it stays as it is. Without a name it stays in its row."""
    chosen, data = options(backend), text.encode()
    is_file = bool(name and chosen.payload_storage and len(data) > chosen.offload_size)
    form: dict[str, Any] = {"v": VERSION, "size": len(data)}
    if chosen.payload_keys:
        data = cipher(tuple(chosen.payload_keys)).encrypt(data)
        form["encrypted"] = True
    if is_file and (file := saved(data, file_name(task_id, name), chosen)):
        return {PAYLOAD: form | {"file": file, "sha256": sha256(data).hexdigest()}}
    return {PAYLOAD: form | {"data": data.decode()}} if chosen.payload_keys else None


def file_name(task_id: UUID, name: str) -> str:
    """Return a name in a folder for each day."""
    return f"{time_of(task_id):%Y%m%d}/{task_id.hex}-{name}"


def saved(data: bytes, name: str, chosen: QueueOptions) -> str:
    """Return the name under which the storage keeps the data; none if it fails, so that the row has to keep them."""
    try:
        return str(storages[str(chosen.payload_storage)].save(name, ContentFile(data)))
    except Exception as error:  # noqa: BLE001 - a storage may raise anything
        logger.warning("%s stays in its row: the storage %r failed: %r", name, chosen.payload_storage, error)
        return ""


@contextmanager
def calls_hidden(tasks: Sequence[Any]) -> Iterator[None]:
    """Within the block, tasks to be written have what is stored in place of their arguments."""
    columns = ("args", "kwargs", "on_failure")
    plain = [(task, {name: getattr(task, name) for name in columns}) for task in tasks if hides(task.backend)]
    for task, _ in plain:
        hide_call(task)
    try:
        yield
    finally:
        for task, given in plain:
            vars(task).update(given)


def hide_call(task: Any) -> None:
    if is_hidden(task.kwargs):
        task.kwargs = copied(task)
    # A repeating task hands its row down to its next occurrence, which could not read the file.
    elif task.args or task.kwargs:
        form = hidden(dump([task.args, task.kwargs]), task.backend, task.id, "" if task.interval else "call")
        task.args, task.kwargs = ([], form) if form else (task.args, task.kwargs)
    if task.on_failure:
        task.on_failure = hidden_follow_up(task, task.on_failure)


def hidden_follow_up(task: Any, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call for the failure of a task without its arguments to be read, and so on for the call for its own."""
    changes: dict[str, Any] = {}
    args, kwargs = stored["args"], stored.get("kwargs", {})
    if (args or kwargs) and not is_hidden(kwargs) and (form := hidden(dump([args, kwargs]), task.backend, task.id)):
        changes = {"args": [], "kwargs": form}
    if then := stored.get("on_failure"):
        changes["on_failure"] = hidden_follow_up(task, then)
    return {**stored, **changes}


def copied(task: Any) -> dict[str, Any]:
    """Return the hidden call of a task that is done again, with a file of its own. If there is none, it fails so."""
    form: dict[str, Any] = task.kwargs
    before = form[PAYLOAD].get("file")
    if before is None or task.retry_of_id is None or not is_own(before, task.retry_of_id):
        return form
    chosen = options(task.backend)
    try:
        data = fetch(before, chosen)
    except PayloadUnavailable:
        return form
    file = saved(data, file_name(task.id, "call"), chosen)
    return {PAYLOAD: {**form[PAYLOAD], "file": file}} if file else form


# Read


def opened_call(call: Call) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call whose keyword arguments are hidden. Plain ones before them stay the first."""
    found = opened(call.kwargs, call.backend, call.id)
    match found:
        case [list() as args, dict() as kwargs]:
            return [*call.args, *args], kwargs
    raise PayloadUnavailable("The stored call is damaged: it holds no arguments.")


def opened(data: Any, backend: str, task_id: UUID) -> Any:
    """Return JSON as it was before it was hidden. PayloadUnavailable is final; other errors are worth another try."""
    if not is_hidden(data):
        return data
    form, chosen = data[PAYLOAD], options(backend)
    if form.get("v") != VERSION:
        raise NewerFormat(f"A payload has the format {form.get('v')!r:.20}; this release reads {VERSION}.")
    raw = content_of(form, chosen, task_id)
    try:
        return json.loads(decrypted(raw, chosen) if form.get("encrypted") else raw)
    except (ValueError, RecursionError) as error:
        raise PayloadUnavailable("The payload is damaged: it is no JSON.") from error


def content_of(form: Mapping[str, Any], chosen: QueueOptions, task_id: UUID) -> bytes:
    file = form.get("file")
    if file is None:
        return str(form.get("data") or "").encode()
    if not is_own(file, task_id):
        raise PayloadUnavailable(f"The row names the file {file!r:.200}, which belongs to another task.")
    raw = fetch(file, chosen)
    if sha256(raw).hexdigest() != form.get("sha256"):
        raise PayloadUnavailable(f"The file {file} is not what was stored: its SHA-256 differs from the row's.")
    return raw


def is_own(file: Any, task_id: UUID) -> bool:
    """Return whether the file bears the id of the task, and no part of its name leads elsewhere."""
    if not isinstance(file, str):
        return False
    path = PurePosixPath(file)
    leads_elsewhere = path.is_absolute() or ".." in path.parts or "\\" in file
    return path.name.startswith(task_id.hex) and not leads_elsewhere


def fetch(file: str, chosen: QueueOptions) -> bytes:
    if chosen.payload_storage is None:
        raise PayloadUnavailable(f"The payload is the file {file}. Name its storage as OPTIONS['PAYLOAD_STORAGE'].")
    storage = storages[chosen.payload_storage]
    try:
        with storage.open(file) as found:
            return bytes(found.read(2 * MOST_BYTES))
    except Exception as error:
        if isinstance(error, FileNotFoundError) or not storage.exists(file):
            raise PayloadUnavailable(f"The file {file} is gone from the storage {chosen.payload_storage!r}.") from error
        raise


def decrypted(token: bytes, chosen: QueueOptions) -> bytes:
    from cryptography.fernet import InvalidToken

    if not chosen.payload_keys:
        raise PayloadUnavailable("The payload is encrypted, and OPTIONS['PAYLOAD_KEYS'] of this process is empty.")
    try:
        return bytes(cipher(tuple(chosen.payload_keys)).decrypt(token))
    except InvalidToken as error:
        raise PayloadUnavailable(
            "The payload is encrypted by a key that is none of OPTIONS['PAYLOAD_KEYS'], or was changed. "
            "Add its key again, and retry the task."
        ) from error


# Delete


def files_of(rows: Iterable[tuple[UUID, Any]]) -> dict[str, UUID]:
    """Return the files that belong to tasks, by the texts of their calls and results."""
    found: dict[str, UUID] = {}
    for task_id, text in rows:
        try:
            data = json.loads(text)
        except (TypeError, ValueError, RecursionError):
            continue
        if is_hidden(data) and is_own(file := data[PAYLOAD].get("file"), task_id):
            found[file] = task_id
    return found


def delete_files(files: Iterable[str], backend: str) -> None:
    """Delete the files of tasks that are gone. One that cannot be deleted is left, and named in the log."""
    alias = options(backend).payload_storage
    for file in files if alias else ():
        try:
            storages[str(alias)].delete(file)
        except Exception as error:  # noqa: BLE001 - a storage may raise anything
            logger.warning("the payload %s, whose task is pruned, cannot be deleted: %r", file, error)
