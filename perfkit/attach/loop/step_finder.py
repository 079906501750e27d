"""Finds the ends of a loop's steps from the steps of its optimizers."""

# Steps of each of several optimizers before they are compared.
_ENOUGH = 2
# Rounds of the others after which a silent optimizer counts as rare, or gone.
_MOST_SILENT = 10


class StepFinder:
    """Tells for every optimizer's step whether a step of the loop ends with it.

    With one optimizer, every step of it ends a step of the loop. With several (a generator and a discriminator, one
    optimizer per parameter group), the least frequent one does, the last of equally frequent ones: five steps of a
    critic and one of a generator are one step. Until that is known, there are no steps.

    An optimizer that was not there before starts the search anew when it steps in two of ten steps: others are made for
    one step alone, or are no part of every step (a lazy regularizer). With `every`, each so many optimizer steps are
    one, whoever makes them.

    `searches` is how often a search was started: what was taken for steps before the last one may not have been any.
    `surplus` is by how many more steps had ended when the last search did than the optimizer that ends them had made:
    the updates of a critic that were taken for steps until its generator was known.
    """

    def __init__(self, every: int | None = None) -> None:
        self.every = every
        self.last: int | None = None
        self.searches = 0
        self.surplus = 0
        self._made = 0  # updates of all
        # Of each: the steps that had ended and the updates made when it first stepped, and its own.
        self._seen: dict[int, tuple[int, int, int]] = {}
        self._counts: dict[int, int] = {}
        self._new: dict[int, int] = {}  # in which step of the loop those that are not counted yet were seen
        self._steps = 0
        self._since: set[int] = set()  # who has stepped since a step of the loop ended
        self._again = 0  # and the times that one of them stepped again
        self._round = 1

    def is_step_end(self, optimizer: int) -> bool:
        """True if a step of the loop ends with this step of `optimizer` (any number that identifies it)."""
        self._again += optimizer in self._since
        self._since.add(optimizer)
        if self.every is not None:
            return self._record_end(len(self._since) + self._again >= self.every)
        self._made += 1
        ended, made, own = self._seen.get(optimizer, (self._steps, self._made, 0))
        self._seen[optimizer] = ended, made, own + 1
        if not self._counts:
            self._start_search([optimizer])
        elif self._again > self._compute_patience():
            self._give_up(optimizer)
        elif optimizer not in self._counts and self._new.setdefault(optimizer, self._steps) < self._steps:
            self._start_search([*self._counts, optimizer])
        if optimizer in self._counts:
            self._counts[optimizer] += 1
            if self.last is None and min(self._counts.values()) >= (_ENOUGH if len(self._counts) > 1 else 1):
                self._choose_last(optimizer)
        return self._record_end(optimizer == self.last)

    def replace(self, old: int, new: int) -> bool:
        """Let `new` take the place of `old`; returns False where there is none, since it is not counted."""
        if old not in self._counts or self.every is not None:
            return False
        self._counts = {new if each == old else each: count for each, count in self._counts.items()}
        self._seen[new] = self._seen.pop(old)
        self._since = {new if each == old else each for each in self._since}
        self._new.pop(new, None)
        self.last = new if self.last == old else self.last
        return True

    def restart(self, among: list[int]) -> None:
        """Search anew, among these optimizers."""
        if self.every is None:
            self._start_search(among)

    def _record_end(self, ended: bool) -> bool:
        if ended:
            self._steps += 1
            self._since = set()
            self._again = 0
            self._new = {optimizer: step for optimizer, step in self._new.items() if self._steps - step <= _MOST_SILENT}
            if len(self._seen) > len(self._counts) + len(self._new):
                self._seen = {
                    each: seen for each, seen in self._seen.items() if each in self._counts or each in self._new
                }
        return ended

    def _start_search(self, among: list[int]) -> None:
        self._counts = dict.fromkeys(among, 0)
        for optimizer in among:
            self._new.pop(optimizer, None)
        self.last = None
        self.searches += 1

    def _compute_patience(self) -> int:
        """The number of repeated optimizer steps allowed before a step of the loop must have ended."""
        return _MOST_SILENT * (len(self._counts) if self.last is None else self._round)

    def _give_up(self, optimizer: int) -> None:
        """One has been silent for too long: the one that steps ended with, or another that is searched among."""
        often = {candidate: count for candidate, count in self._counts.items() if count >= _ENOUGH}
        if self.last is None and often:
            self._counts = often
            self._choose_last(optimizer)
        else:
            self._start_search([optimizer])

    def _choose_last(self, stepped: int) -> None:
        fewest = min(self._counts.values())
        self.last = [optimizer for optimizer, count in self._counts.items() if count == fewest][-1]
        self._round = -(-sum(self._counts.values()) // fewest)
        ended, made, own = self._seen[self.last]
        per_step = (self._made - made) // (own - 1) if own > 1 else 1
        # The others' updates before its first one belong to its first step, unless they are more than a step has.
        before = ended - (per_step - 1) if ended >= per_step else 0
        self.surplus = self._steps - before - (own - (stepped == self.last))
