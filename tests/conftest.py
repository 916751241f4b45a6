"""What every test shares: one hypothesis profile and threads that wait asleep, for a shared, noisy machine."""

from hypothesis import HealthCheck, settings

from services.executor.threads import wait_passively

wait_passively()
settings.register_profile("headway", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("headway")
