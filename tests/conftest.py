"""Tests compile hundreds of small programs that then run for milliseconds: compile quickly, in child processes too.

The experiments, which the README's second command runs, compile as users do.
"""

import os

# Set before JAX starts; whoever has chosen otherwise keeps the choice.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
FLAG = "--xla_cpu_use_fusion_emitters"
if FLAG not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{FLAG}=false {os.environ.get('XLA_FLAGS', '')}".strip()
