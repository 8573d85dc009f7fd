"""One visitor's page: controls change its state, workers compute it, panels show the answers."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# Bokeh's properties take more types than they declare.

import contextlib
import itertools
import queue
from dataclasses import replace
from functools import partial
from typing import Any

from bokeh.document import Document
from bokeh.models import Button, Column, Div, Select

from sgdtheory._common.sheets import Sheet
from sgdtheory.explore.appearance import DARK, LIGHT, Palette
from sgdtheory.explore.controls import STYLE, Controls
from sgdtheory.explore.drawing import make_drawings
from sgdtheory.explore.formulas import typeset
from sgdtheory.explore.ledger import Ledger, Subject
from sgdtheory.explore.presets import PRESETS
from sgdtheory.explore.registry import JOBS, SHOWN_IN, SPECS
from sgdtheory.explore.signals import awaited, signals
from sgdtheory.explore.spec import Answer
from sgdtheory.explore.state import COLOURS, SIZES, SLOTS, State, kinds_of
from sgdtheory.explore.texts import note, rates, readings, replicas, results, waiting
from sgdtheory.explore.worker import Message
from sgdtheory.explore.workers import GRACE, Workers

COMPUTED = [name for name, job in JOBS.items() if job.depends_on is not None]  # A state change starts these jobs.
TOGETHER = 10  # Moves of sliders are gathered for this many milliseconds.
TELL_WAITING = 0.7  # The page says what it waits for after this many seconds of computing.
NO_PRESET = "(choose one)"
PAGES = itertools.count()


class Page:
    """All that one visitor sees.

    Args:
        document: Bokeh's, of the session.
        workers: of the server.
        state: to begin with.
        sentences: on what of the link could not be taken.
    """

    def __init__(self, document: Document, workers: Workers, state: State, sentences: list[str]) -> None:
        self.document, self.workers, self.state = document, workers, state
        self.key = next(PAGES)
        self.closed = self.refreshing = False
        self.refusal = ""
        self.invalid: dict[str, str] = {}  # algorithm → why what its controls say is none
        self.notes: dict[Any, tuple[str, ...]] = {"link": tuple(sentences)}
        self.ledger = Ledger()
        self.marks: dict[Subject, dict[str, float]] = {}
        self.sheets: dict[Subject, tuple[Sheet, ...]] = {}
        self.before: dict[Subject, dict[str, float]] = {}  # those before the last move of a control
        self.simulated: dict[int, Any] = {}  # algorithm's place → what a simulation of it would be of
        self.inbox: queue.SimpleQueue[tuple[Subject, Message]] = queue.SimpleQueue()
        self.panels = make_drawings(SPECS)
        self.controls = Controls(self.changed)
        self._make_rest()
        with document.models.freeze():  # Bokeh would look through all models again at each of fifty changes
            self._add_roots()
            self.controls.show(state)
            self.dress()
            self.refresh()
        document.add_periodic_callback(self.look_around, 300)

    # ------------------------------------------------------------------ making

    def _make_rest(self) -> None:
        how: Any = {"stylesheets": [STYLE], "sizing_mode": "stretch_width"}
        names = [NO_PRESET, *(preset.name for preset in PRESETS)]
        self.presets = Select(title="", options=list(names), value=NO_PRESET, css_classes=["control-preset"], **how)
        self.presets.on_change("value", lambda attr, old, new: self.take_preset())
        self.sentence, self.words, self.readings, self.results, self.status = (
            Div(text="", css_classes=[name], **how) for name in ("sentence", "words", "readings", "results", "status")
        )
        self.readings.margin = 0
        self.words.visible = False  # as long as there are none: they would keep a line free
        self.simulation = Button(label="Simulate the loss curves", css_classes=["control-simulate"], **how)
        self.simulation.on_click(self.simulate_or_stop)
        self.share = Div(text="", css_classes=["share"], **how)
        self.colours, self.text = (
            Select(title=title, options=list(options), css_classes=[f"control-{title}"], **how)
            for title, options in (("colours", COLOURS), ("text", SIZES))
        )
        for name in ("colours", "text"):
            getattr(self, name).on_change("value", partial(self.looked, name))
        self.signals = signals()
        self.signals["prefers_dark"].on_change("active", lambda attr, old, new: self.dress())

    def _add_roots(self) -> None:
        panels = {name: self._layout(name) for name, spec in SPECS.items() if not spec.beneath}
        columns = {
            "problem": self.controls.column("capacity", "source", "noise_variance", "precondition", "num_features"),
            "setting": self.controls.column("num_samples", "batch_size", "learning_rate", "rate_factor", "overhead"),
            **{slot: each.column for slot, each in self.controls.algorithms.items()},
        }
        own = "presets", "sentence", "words", "readings", "results", "status", "simulation", "share", "colours", "text"
        for name, root in {**panels, **columns, **{name: getattr(self, name) for name in own}, **self.signals}.items():
            root.name = name
            self.document.add_root(root)

    def _layout(self, name: str) -> Column:
        """Return a panel with those beneath it, its legend last."""
        beneath = [part for other, spec in SPECS.items() if spec.beneath == name for part in self.panels[other].parts]
        panel = self.panels[name]
        return Column(panel.caption, *panel.parts, *beneath, panel.key, sizing_mode="stretch_width")

    # ------------------------------------------------------------------ what the visitor does

    def changed(self, name: str, value: Any) -> None:
        """A control has been moved; it may say why there is no value."""
        self.invalid.pop(name, None)
        self.notes.pop("link", None)
        if isinstance(value, ValueError):
            self.invalid[name] = str(value)
            self.refuse(str(value))
            return
        self.state = replace(self.state, **{name: value})
        if name in ("colours", "text"):
            self.dress()
        if not self.refreshing:  # once for all moves that have come by then
            self.refreshing = True
            self.document.add_timeout_callback(self.refresh, TOGETHER)

    def looked(self, name: str, attr: str, old: str, new: str) -> None:
        """Colours or text size have been chosen."""
        if new != getattr(self.state, name):
            self.changed(name, new)

    def take_preset(self) -> None:
        """Go to the preset's state, in the same colours and text."""
        chosen = [preset for preset in PRESETS if preset.name == self.presets.value]
        if chosen and chosen[0].state.looking_like(self.state) != self.state:
            self.invalid.clear()
            self.state = chosen[0].state.looking_like(self.state)
            self.notes.pop("link", None)
            self.controls.show(self.state)
            self.refresh()

    def simulate_or_stop(self) -> None:
        """The button: begin, or stop what runs; what has finished by then is shown."""
        subjects = [subject for subject in self.ledger.running if subject[0] == "simulated"]
        if subjects:
            for subject in subjects:
                self.workers.stop(self.key, subject)
            return
        if self.refusal:
            return
        for slot in range(len(self.state.algorithms)):
            self._submit("simulated", slot, "asked", 0.0)
        self.tell_status()

    # ------------------------------------------------------------------ computing

    def refresh(self) -> None:
        """Compute what has changed; say it if nothing can be."""
        self.refreshing = False
        self.signals["link"].value = self.state.query or "?"
        self._tell_preset()
        try:
            self.state.checked()
        except ValueError as error:
            self.invalid["state"] = str(error)
        else:
            self.invalid.pop("state", None)
        if self.invalid:
            self.refuse("; ".join(self.invalid.values()))
            return
        self.refusal = ""
        self.before |= {key: marks for key, marks in self.marks.items() if key not in self.pale}
        self.notes["theory"] = self.state.unknown
        self.controls.offer(self.state)
        self._drop_simulation()
        self.tell_look()
        names = self.state.names
        for panel in self.panels.values():
            panel.name(names)
        for computation, slot in itertools.product(COMPUTED, range(len(SLOTS))):
            self._compute(computation, slot)
        self.tell_words()
        self.tell_readings()
        self.tell_status()

    def _compute(self, computation: str, slot: int) -> None:
        """Have a job done anew if what it depends on has changed; forget it where there is none."""
        job = JOBS[computation]
        lane = job.lane(self.state, slot) if slot < len(self.state.names) else ""
        if not lane:
            if (computation, slot) in self.ledger.newest:
                self._forget(computation, slot)
            return
        before, inputs = self.ledger.computed.get((computation, slot)), job.inputs(self.state, slot)
        if before == inputs:
            return
        self.ledger.computed[computation, slot] = inputs
        self._submit(computation, slot, SLOTS[slot] if lane == "quick" else lane, GRACE if job.patient else 0.0)
        if before is not None and kinds_of(before[0]) != kinds_of(inputs[0]):
            self._take_away((computation, slot))

    def _submit(self, computation: str, slot: int, lane: str, grace: float) -> None:
        subject = computation, slot
        self.notes.pop(subject, None)
        hear = partial(self._heard, subject)
        arguments = self.state.bare, slot
        number = self.workers.submit(lane, self.key, subject, computation, arguments, hear, grace)
        self.ledger.begun(subject, number)

    def _take_away(self, subject: Subject) -> None:
        """Clear a subject's answer of an earlier state, and admit no more such answers."""
        self._clear(subject)
        self.ledger.without_older(subject)

    def _forget(self, computation: str, slot: int) -> None:
        """Stop and clear a computation of an algorithm that has been removed."""
        subject = computation, slot
        self.workers.stop(self.key, subject)
        self.notes.pop(subject, None)
        self.ledger.forget(subject)
        self._clear(subject)

    def _clear(self, subject: Subject) -> None:
        """Take away what a computation has shown."""
        answer, slot = JOBS[subject[0]].answer, subject[1]
        for name in SHOWN_IN[answer]:
            self.panels[name].clear(slot, answer)
        self.sheets.pop((answer, slot), None)
        if self.marks.pop((answer, slot), None):
            self.tell_readings()

    def _drop_simulation(self) -> None:
        """Remove simulated points whose setting is not that of the controls any more."""
        shown = {slot: JOBS["run"].inputs(self.state, slot) for slot in range(len(self.state.algorithms))}
        changed = any(self.simulated.get(slot) != inputs for slot, inputs in shown.items())
        self.simulated = shown
        begun = [subject for subject in self.ledger.newest if subject[0] == "simulated"] if changed else []
        for subject in begun:
            self.workers.stop(self.key, subject)
            self.ledger.forget(subject)
            for each in (self.notes, self.marks):
                each.pop(subject, None)
        if begun:
            for slot in range(len(SLOTS)):
                self.panels["path"].clear(slot, "simulated")
            self.panels["path"].name(self.panels["path"].names)
            self.share.text = ""

    def refuse(self, sentence: str) -> None:
        """Say why nothing can be shown, and show nothing."""
        self.refusal = sentence
        self.workers.stop(self.key)
        self.ledger.clear()
        self.marks.clear()
        self.sheets.clear()
        for slot in range(len(SLOTS)):
            for panel in self.panels.values():
                panel.clear(slot)
        for panel in self.panels.values():
            panel.name(())
        self.tell_words()
        self.tell_readings()
        self.tell_look()

    # ------------------------------------------------------------------ hearing

    def _heard(self, subject: Subject, message: Message) -> None:
        """Called from another thread."""
        self.inbox.put((subject, message))
        with contextlib.suppress(Exception):  # of a document that is being taken down: its visitor has gone
            if not self.closed:
                self.document.add_next_tick_callback(self.take_all)

    def look_around(self) -> None:
        """Take answers that did not reach Bokeh in time, and update the status; called now and then."""
        self.take_all()
        self.tell_status()

    def take_all(self) -> None:
        """Take all messages in the order in which they came, which callbacks of Bokeh do not keep."""
        while not self.inbox.empty():
            self.take(*self.inbox.get())

    def take(self, subject: Subject, message: Message) -> None:
        """Show an answer, or note how its job ended. An older position's is shown until a newer one's has come."""
        if self.closed:
            return
        if message.kind != "answer":
            newest = self.ledger.ended(subject, message.number, message.kind not in ("stopped", "failed"))
            if newest and message.kind in ("failed", "refused"):
                self._refused(subject, message)
            return
        answer = message.content
        if self.refusal or not self.ledger.admits(subject, message.number):
            return
        self.show(subject, answer)

    def _refused(self, subject: Subject, message: Message) -> None:
        self.notes[subject] = (f"{JOBS[subject[0]].words}: {message.content}",)
        self._clear(subject)
        self.tell_words()

    def show(self, subject: Subject, answer: Answer) -> None:
        """Show an answer in all panels that draw it."""
        slot = subject[1]
        for name in SHOWN_IN[answer.panel]:
            self.panels[name].show(slot, answer)
        self.marks[answer.panel, slot] = answer.marks
        self.sheets[answer.panel, slot] = answer.sheets
        self.notes[subject] = tuple(words.replace(" (optimal_batch_size)", "") for words in answer.words)
        self.tell_words()
        self.tell_readings()
        if answer.panel == "simulated":
            self.tell_status()

    # ------------------------------------------------------------------ telling

    def tell_words(self) -> None:
        """Show refusals and remarks below the controls."""
        listed = [self.refusal] if self.refusal else [each for note in self.notes.values() for each in note]
        listed = [*self.notes.get("link", ()), *listed] if self.refusal else listed
        text = note(listed)
        if self.words.text != text:
            self.words.update(text=text, visible=bool(text))

    def tell_readings(self) -> None:
        """Show the numbers of the setting, a column for each algorithm, and the tables of the results."""
        names = () if self.refusal else self.state.names
        text = readings(names, self.marks, self.pale, self.before) if self.marks else ""
        if self.readings.text != text:
            self.readings.text = text
        text = results(names, self.sheets, self.pale)
        if self.results.text != text:
            self.results.text = text
        self.controls.tell_rates(rates(self.state, {} if self.refusal else self.marks, self.pale))
        self.signals["awaited"].value = awaited(self.ledger)

    def tell_status(self) -> None:
        """Show what is being computed, where it takes a while, and how far the simulation is."""
        running = self.ledger.running
        simulated = [subject for subject in running if subject[0] == "simulated"]
        label = "Stop the simulation" if simulated else "Simulate the loss curves"
        if self.simulation.label != label:
            self.simulation.label = label
        shares = [self.marks.get(subject, {}).get("share", 0.0) for subject in simulated]
        means = replicas(self.marks) if self.panels["path"].has("simulated") else ""
        text = f"{100 * min(shares):.0f}% simulated" if simulated else means
        if self.share.text != text:
            self.share.text = text
        for subject in self.ledger.showing_older(TELL_WAITING):
            self._take_away(subject)
        late = {JOBS[name].words: seconds for (name, _), seconds in self.ledger.waited().items() if name != "simulated"}
        text = waiting({what: seconds for what, seconds in late.items() if seconds > TELL_WAITING}, bool(running))
        if self.status.text != text:
            self.status.text = text
        self.signals["awaited"].value = awaited(self.ledger)

    def _tell_preset(self) -> None:
        """The sentence of the preset that is shown, if one is."""
        here = [each for each in PRESETS if each.state.looking_like(self.state) == self.state]
        self.presets.value = here[0].name if here else NO_PRESET
        self.sentence.update(text=typeset(here[0].sentence) if here else "", visible=bool(here))

    def dress(self) -> None:
        """Colours and text size of all."""
        self.colours.value, self.text.value = self.state.colours, self.state.text
        self.tell_look()
        for panel in self.panels.values():
            panel.dress(self.palette, self.state.text)

    @property
    def palette(self) -> Palette:
        """Colours for the ground, light or dark."""
        return DARK if self.state.is_dark(bool(self.signals["prefers_dark"].active)) else LIGHT

    def tell_look(self) -> None:
        """Words by which the browser chooses styles; with nothing to show there is nothing to download."""
        refused = " refused" if self.refusal else ""
        self.signals["look"].value = f"{'dark' if self.palette is DARK else 'light'} {self.state.text}{refused}"

    @property
    def pale(self) -> set[Subject]:
        """Answers that are shown although they were computed for an earlier state, with the algorithm's place."""
        return {(JOBS[name].answer, slot) for name, slot in self.ledger.newest if self.ledger.is_older((name, slot))}

    def close(self) -> None:
        """The visitor has gone."""
        self.closed = True
        self.workers.stop(self.key)
