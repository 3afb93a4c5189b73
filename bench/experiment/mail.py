"""What passes through the wall: a line of JSON and named tensors, never a pickle."""

from multiprocessing.connection import Connection
from typing import Any

import torch
from pydantic_core import from_json, to_json
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor


class GarbledError(Exception):
    """What came is no message."""


class Mail:
    """One end of a pipe.

    Args:
        connection: the end.
        device: where tensors that come are put.
    """

    def __init__(self, connection: "Connection[bytes, bytes]", device: torch.device) -> None:
        self.connection, self.device = connection, device

    def send(self, kind: str, *, tensors: dict[str, Tensor] | None = None, **facts: Any) -> None:
        """Sends a message.

        Raises:
            OSError: nobody is there any more.
        """
        self.connection.send_bytes(to_json({"kind": kind, "facts": facts}))
        flat = {name: value.detach().cpu().contiguous() for name, value in (tensors or {}).items()}
        self.connection.send_bytes(save(flat))

    def receive(self) -> tuple[str, dict[str, Any], dict[str, Tensor]]:
        """The kind of the next message, what it says, and its tensors.

        Raises:
            EOFError, OSError: nobody is there any more.
            GarbledError: it is none.
        """
        head, body = self.connection.recv_bytes(), self.connection.recv_bytes()
        try:
            message = from_json(head)
            tensors = {name: value.to(self.device) for name, value in load(body).items()}
            kind, facts = message["kind"], message["facts"]
        except (ValueError, TypeError, KeyError, SafetensorError) as error:
            raise GarbledError(str(error)) from None
        if not (isinstance(kind, str) and isinstance(facts, dict)):
            raise GarbledError("it has no kind or no facts")
        return kind, facts, tensors
