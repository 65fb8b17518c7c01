"""`ladder.json`: every attempt at a step's work, written by its launcher alone, before and after each thing it does.

An attempt is written down before its job is created, and so is a probe. Its token is a label of the job, and no second
job is ever created for it: a creation of which nobody knows whether it succeeded is searched for, and if nothing is
found, the next one has a token of its own. So the job that appears later is known to be nobody's.

Each start of a launcher is a term. One that finds a later term than its own has been replaced and changes nothing.
"""

from collections.abc import Callable
from dataclasses import replace

from vgp.launch.capacity.errors import Superseded
from vgp.launch.capacity.patience import Patience
from vgp.protocol.capacity.folder import ControlFolder
from vgp.protocol.capacity.ladder import Creation, Ladder

NAME = "ladder.json"


class Journal:
    """Reads and changes the ladder; every change is a compare-and-swap that holds in this launcher's term alone.

    Args:
        launcher: A name for this launcher that no other has.
    """

    def __init__(self, folder: ControlFolder, patience: Patience, launcher: str) -> None:
        self.folder, self.patience, self.launcher = folder, patience, launcher
        self.term = 0
        #: As it was last read or written.
        self.ladder: Ladder

    def begin(self, first: Ladder, again: bool = False) -> Ladder:
        """The ladder at the beginning of a term of this launcher; `first` where there is none yet.

        Args:
            again: It had a term before.

        Raises:
            Superseded: that term is over, since a newer launcher is at work.
        """

        def taken_over(ladder: Ladder) -> Ladder:
            if ladder.launcher == self.launcher:
                return ladder
            if again:
                raise Superseded("another launcher of this step has taken over.")
            return replace(ladder, term=ladder.term + 1, launcher=self.launcher)

        ladder = self._swap(lambda there: taken_over(there or first))
        self.term = ladder.term
        return ladder

    def change(self, alter: Callable[[Ladder], Ladder]) -> Ladder:
        """The ladder with a change; `alter` may be called again with what is there then.

        Raises:
            Superseded: a newer launcher is at work.
        """

        def altered(there: Ladder | None) -> Ladder:
            if there is None or there.launcher != self.launcher:
                raise Superseded("another launcher of this step has taken over.")
            return alter(there)

        return self._swap(altered)

    def read(self) -> Ladder:
        """The ladder as it is. Raises as `change`."""
        return self.change(lambda ladder: ladder)

    def there(self) -> Ladder | None:
        """The ladder, whoever's it is; None if there is none."""
        document = self.patience("read the ladder", lambda: self.folder.read(NAME))
        return Ladder.from_json(document.content) if document else None

    def write(self, new: Creation) -> Ladder:
        """The ladder with this state of an attempt or a probe that goes on. Raises as `change`."""
        return self.change(lambda ladder: ladder.with_creation(new))

    def _swap(self, alter: Callable[[Ladder | None], Ladder]) -> Ladder:
        self.ladder = self.patience("change the ladder", lambda: self._swapped(alter))
        return self.ladder

    def _swapped(self, alter: Callable[[Ladder | None], Ladder]) -> Ladder:
        """One try. Read anew at the next, an own change whose answer was lost is seen to be there."""
        there = self.folder.read(NAME)
        before = Ladder.from_json(there.content) if there else None
        after = alter(before)
        if after == before:
            return after
        content = after.to_json()
        self.folder.write(NAME, content, there.generation if there else 0)
        return Ladder.from_json(content)
