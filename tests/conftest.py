"""What every test shares: hypothesis without a deadline, because a busy machine is no fault of lib."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
