"""Answers: the parcels that a job of Spark has sent to the driver."""

from typing import TypeVar

from arco.compactor.job import NewRef
from arco.compactor.spark.failure import Failure
from arco.compactor.spark.parcel import Kind, Parcel
from arco.core import json

T = TypeVar("T")


class Answers:
    """What all tasks have answered; made only if none of them has failed."""

    def __init__(self, parcels: list[Parcel]) -> None:
        self._parcels = parcels
        for failure in self.read(Kind.FAILURE, Failure):
            raise failure.error()

    def read(self, kind: Kind, of: type[T]) -> list[T]:
        """What is in the parcels of one kind."""
        return [json.decode(each.data, of) for each in self._parcels if each.kind == kind]

    def files(self) -> tuple[NewRef, ...]:
        """The files that were created."""
        return tuple(self.read(Kind.FILE, NewRef))
