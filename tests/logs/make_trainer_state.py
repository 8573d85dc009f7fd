"""Writes `data/trainer_state.json` by transformers' own TrainerState, which installs without PyTorch.

Run by hand: `python -m tests.logs.make_trainer_state`. A test with `pytest -m slow` holds the file to the class, where
transformers is installed.
"""

from pathlib import Path

FILE = Path(__file__).parent / "data" / "trainer_state.json"


def write(path):
    """A run of 60 steps: a row of training each 10 and of evaluation each 20, and the summary at its end."""
    from transformers.trainer_callback import TrainerState

    state = TrainerState(epoch=1.0, global_step=60, max_steps=60, logging_steps=10, eval_steps=20, save_steps=60)
    state.train_batch_size = 8
    state.num_input_tokens_seen = 60 * 64 * 512
    for step in range(10, 70, 10):
        more = {"num_input_tokens_seen": step * 64 * 512}
        state.log_history.append(
            {"loss": 3 + 20 / step, "grad_norm": 0.5, "learning_rate": 5e-6 * step, "epoch": step / 60, **more}
            | {"step": step}
        )
        if step % 20 == 0:
            state.log_history.append(
                {"eval_loss": 3.5 + 20 / step, "eval_runtime": 1.0, "epoch": step / 60, "step": step}
            )
    state.log_history.append({"train_runtime": 9.0, "train_loss": 3.8, "total_flos": 1e12, "epoch": 1.0, "step": 60})
    state.save_to_json(str(path))


if __name__ == "__main__":
    write(FILE)
