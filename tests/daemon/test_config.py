from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from apscheduler.triggers.cron import CronTrigger
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from daemon.config import Config, environment, host_timezone, load, sample
from daemon.options import Cron, Sensitivity
from storage.errors import Invalid
from storage.model import SENSITIVITIES


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "TZ": "Europe/Berlin"}


@pytest.fixture
def user_file(home: Path) -> Path:
    path = home / ".config/dreamd/dreamd.toml"
    path.parent.mkdir(parents=True)
    return path


def refused(environ: dict[str, str], file: Path | None = None, text: str = "") -> Invalid:
    if file is not None:
        file.write_text(text)
    with pytest.raises(Invalid) as caught:
        load(environ)
    assert caught.value.hint
    return caught.value


def test_without_file_or_variables_every_option_has_its_default(environ: dict[str, str], home: Path) -> None:
    config = load(environ)

    assert config.source is None
    assert config.storage.durability == "process"
    assert config.decay.base_strength_days == 7.0
    assert config.recall.citation_cap == 0.15
    assert config.schedule.night == "30 3 * * *"
    assert config.metrics.address == ("127.0.0.1", 9464)
    assert config.state_dir == home / ".local/state/dreamd"
    assert config.socket == home / ".local/state/dreamd/dreamd.sock"


def test_the_configuration_cannot_be_changed_after_it_is_loaded(environ: dict[str, str]) -> None:
    config = load(environ)

    with pytest.raises(ValidationError):
        config.decay.threshold = 0.5


def test_a_named_file_goes_before_the_variable_and_that_before_the_users_file(
    environ: dict[str, str], user_file: Path, tmp_path: Path
) -> None:
    user_file.write_text("[dream]\nsweep_days = 1\n")
    (tmp_path / "two.toml").write_text("[dream]\nsweep_days = 2\n")
    (tmp_path / "three.toml").write_text("[dream]\nsweep_days = 3\n")

    assert load(environ).dream.sweep_days == 1
    environ["DREAMD_CONFIG"] = str(tmp_path / "two.toml")
    assert load(environ).dream.sweep_days == 2
    third = load(environ, config=str(tmp_path / "three.toml"))
    assert third.dream.sweep_days == 3
    assert third.source == tmp_path / "three.toml"


def test_the_state_folder_is_flag_then_variable_then_systemds_first_then_the_users(
    environ: dict[str, str], home: Path
) -> None:
    assert load(environ).state_dir == home / ".local/state/dreamd"
    environ["STATE_DIRECTORY"] = "/var/lib/dreamd:/var/lib/other"
    assert load(environ).state_dir == Path("/var/lib/dreamd")
    environ["DREAMD_STATE_DIR"] = "~/mine"
    assert load(environ).state_dir == home / "mine"
    assert load(environ, state_dir="relative").state_dir == Path.cwd() / "relative"


def test_the_socket_is_flag_then_variable_then_systemds_then_the_sessions_then_in_the_state_folder(
    environ: dict[str, str],
) -> None:
    assert load(environ, state_dir="/srv/dreamd").socket == Path("/srv/dreamd/dreamd.sock")
    environ["XDG_RUNTIME_DIR"] = "/run/user/1000"
    assert load(environ).socket == Path("/run/user/1000/dreamd/dreamd.sock")
    environ["RUNTIME_DIRECTORY"] = "/run/dreamd"
    assert load(environ).socket == Path("/run/dreamd/dreamd.sock")
    environ["DREAMD_SOCKET"] = "/tmp/one.sock"
    assert load(environ).socket == Path("/tmp/one.sock")
    assert load(environ, socket="/tmp/two.sock").socket == Path("/tmp/two.sock")


def test_a_variable_goes_before_the_file_and_leaves_its_other_keys(environ: dict[str, str], user_file: Path) -> None:
    user_file.write_text("[decay]\nthreshold = 0.2\nbin_days = 5\n")
    environ["DREAMD_DECAY__THRESHOLD"] = "0.3"

    decay = load(environ).decay

    assert (decay.threshold, decay.bin_days) == (0.3, 5)


@pytest.mark.parametrize(
    ("variable", "text", "section", "key", "value"),
    [
        ("DREAMD_STORAGE__FLUSH_SECONDS", "2", "storage", "flush_seconds", 2.0),
        ("DREAMD_RPC__ALLOW_UIDS", "[1000, 1001]", "rpc", "allow_uids", (1000, 1001)),
        ("DREAMD_REDACT__PATTERNS", '{badge = "EMP-[0-9]+"}', "redact", "patterns", {"badge": "EMP-[0-9]+"}),
        ("DREAMD_REDACT__PATTERNS", '{"badge": "EMP-[0-9]+"}', "redact", "patterns", {"badge": "EMP-[0-9]+"}),
        ("DREAMD_SCHEDULE__NIGHT", "off", "schedule", "night", "off"),
        ("DREAMD_SCHEDULE__DECAY", "0 4 * * sun", "schedule", "decay", "0 4 * * sun"),
        ("DREAMD_METRICS__LISTEN", "", "metrics", "listen", ""),
        ("DREAMD_EMBEDDING__MODEL", "256", "embedding", "model", "256"),
        ("DREAMD_DECAY__POLICY", "none", "decay", "policy", "none"),
    ],
)
def test_a_variables_text_is_read_as_what_its_key_wants(
    environ: dict[str, str], variable: str, text: str, section: str, key: str, value: object
) -> None:
    environ[variable] = text

    assert getattr(getattr(load(environ), section), key) == value


def test_variables_without_two_underscores_are_never_errors(environ: dict[str, str]) -> None:
    environ |= {"DREAMD_ANYTHING": "x", "DREAMD_BENCH_SIZE": "1"}

    assert load(environ) == load({"HOME": environ["HOME"], "TZ": environ["TZ"]})


def test_an_unknown_variable_with_two_underscores_is_named_with_what_was_meant(environ: dict[str, str]) -> None:
    environ["DREAMD_DECAY__TRESHOLD"] = "0.2"

    error = refused(environ)

    assert error.detail == "$DREAMD_DECAY__TRESHOLD: [decay] treshold is not known; did you mean [decay] threshold?"
    assert "DREAMD_DECAY__TRESHOLD" in error.hint


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("[storage]\nflush_second = 1\n", "[storage] flush_second is not known; did you mean [storage] flush_seconds?"),
        ("[stroage]\n", "[stroage] is not known; did you mean [storage]?"),
        ("[recall]\nsweep_days = 3\n", "[recall] sweep_days is not known; did you mean [dream] sweep_days?"),
        ("state_dir = '/x'\n", "[state_dir] is not known; it is --state-dir or $DREAMD_STATE_DIR"),
        ("[decay]\nzzzz = 3\n", "[decay] zzzz is not known"),
    ],
)
def test_an_unknown_key_of_the_file_is_named_with_what_was_meant(
    environ: dict[str, str], user_file: Path, text: str, meant: str
) -> None:
    error = refused(environ, user_file, text)

    assert error.detail == f"{user_file}: {meant}"
    assert str(user_file) in error.hint


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[decay]\nthreshold = '0.1'\n", "[decay] threshold is a string and must be a valid number"),
        ("[decay]\nthreshold = 1.5\n", "[decay] threshold is a number and must be less than or equal to 1"),
        ("[decay]\nthreshold = nan\n", "[decay] threshold is a number and must be a finite number"),
        ("[decay]\nbase_strength_days = 0\n", "[decay] base_strength_days is a number and must be greater than 0"),
        (
            "[decay]\nreinforcement_days = -1\n",
            "[decay] reinforcement_days is a number and must be greater than or equal to 0",
        ),
        ("[decay]\nhalf_life_days = 0\n", "[decay] half_life_days is a number and must be greater than 0"),
        ("[decay]\nbin_days = true\n", "[decay] bin_days is a boolean and must be a valid integer"),
        ("[storage]\ndurability = 'disk'\n", "[storage] durability is a string and must be 'process' or 'power'"),
        ("[rpc]\nallow_uids = 1000\n", "[rpc] allow_uids is a number and must be a valid list"),
        ("storage = 5\n", "[storage] is a number and must be a table"),
        (
            "[sensitivity.patterns]\nx = 'top'\n",
            "[sensitivity] patterns is a table and must be 'public', 'personal', 'confidential' or 'secret'",
        ),
    ],
)
def test_a_wrong_value_is_reported_with_its_place_its_kind_and_what_is_allowed(
    environ: dict[str, str], user_file: Path, text: str, fault: str
) -> None:
    error = refused(environ, user_file, text)

    assert error.detail == f"{user_file}: {fault}"
    assert error.extra["field"].startswith(fault[1:].partition("]")[0])


def test_every_fault_is_reported_at_once_each_with_its_own_place(environ: dict[str, str], user_file: Path) -> None:
    environ["DREAMD_DREAM__SWEEP_DAYS"] = "0"

    error = refused(environ, user_file, "[night]\nundo_days = 'x'\n")

    assert error.detail.splitlines() == [
        "$DREAMD_DREAM__SWEEP_DAYS: [dream] sweep_days is a number and must be greater than or equal to 1",
        f"{user_file}: [night] undo_days is a string and must be a valid integer",
    ]


def test_no_value_is_ever_printed(environ: dict[str, str], user_file: Path) -> None:
    environ["DREAMD_STORAGE__FLUSH_SECONDS"] = "planted-one"
    file = "[redact.patterns]\nplanted-two = 'planted-three'\n[sensitivity.patterns]\n'planted-four(' = 'secret'\n"

    error = refused(environ, user_file, file)

    assert len(error.detail.splitlines()) == 3
    assert "planted" not in error.detail + error.hint


def test_a_table_that_is_a_number_in_the_file_stays_an_error_under_a_variable(
    environ: dict[str, str], user_file: Path
) -> None:
    environ["DREAMD_DECAY__THRESHOLD"] = "0.2"

    assert refused(environ, user_file, "decay = 1\n").detail == f"{user_file}: [decay] is a number and must be a table"


@pytest.mark.parametrize("content", [b"[decay\n", b"\xff\xfe", None])
def test_a_file_that_cannot_be_read_is_named(environ: dict[str, str], tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "given.toml"
    if content is not None:
        path.write_bytes(content)
    environ["DREAMD_CONFIG"] = str(path)

    error = refused(environ)

    assert error.detail.startswith(str(path))
    assert str(path) in error.hint


@pytest.mark.parametrize(
    "line", ["30 3 * * *", "*/15 0-6,22 1,15 jan-mar sun", "5/10 * * 1-6/2 mon-fri,sun", "off", ""]
)
def test_cron_lines_with_named_weekdays_are_accepted(environ: dict[str, str], line: str) -> None:
    environ["DREAMD_SCHEDULE__DECAY"] = line

    assert load(environ).schedule.decay == line


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("0 3 * * 0", "write sun, mon"),
        ("0 3 * * */2", "write sun, mon"),
        ("0 3 * *", "five fields"),
        ("@daily", "five fields"),
        ("60 3 * * *", "a minute outside 0-59"),
        ("0 24 * * *", "hour outside 0-23"),
        ("0 3 0 * *", "a day of month outside 1-31"),
        ("0 3 * foo *", "a month outside 1-12"),
        ("0 3 * jan/2 *", "a month that is none of"),
        ("9-5 3 * * *", "runs backwards"),
        ("0-10/20 3 * * *", "step"),
        ("*/0 3 * * *", "step"),
        ("x 3 * * *", "a minute that is none of"),
        ("0 3 * * someday", "a weekday that is none of"),
        ("0 3 * * sun-tue", "runs backwards"),
        ("0 3 * * mon-", "a weekday that is none of"),
    ],
)
def test_other_cron_lines_are_refused_with_the_reason(environ: dict[str, str], line: str, reason: str) -> None:
    environ["DREAMD_SCHEDULE__NIGHT"] = line

    detail = refused(environ).detail

    assert detail.startswith("$DREAMD_SCHEDULE__NIGHT: [schedule] night ")
    assert reason in detail


_words = st.from_regex(r"(\*|[0-9]{1,2}|[a-z]{3}|jan|dec)(-([0-9]{1,2}|dec|mar))?(/[0-9]{1,2})?", fullmatch=True)
_weekdays = st.sampled_from(["*", "sun", "mon-fri", "sat,sun", "sun-mon", "MON"])


@given(st.lists(_words, min_size=4, max_size=4), _weekdays)
def test_whatever_cron_line_is_accepted_the_scheduler_can_read(fields: list[str], weekday: str) -> None:
    line = " ".join([*fields, weekday])
    try:
        TypeAdapter(Cron).validate_python(line)
    except ValidationError:
        return

    assert CronTrigger.from_crontab(line, timezone="UTC")


def test_the_time_zones_follow_the_schedules_and_that_the_hosts(environ: dict[str, str]) -> None:
    config = load(environ)
    assert (config.schedule.zone.key, config.spend.zone.key) == ("Europe/Berlin", "Europe/Berlin")

    environ["DREAMD_SCHEDULE__TIMEZONE"] = "Asia/Tokyo"
    config = load(environ)
    assert (config.schedule.zone.key, config.spend.zone.key) == ("Asia/Tokyo", "Asia/Tokyo")

    environ["DREAMD_SPEND__TIMEZONE"] = "UTC"
    config = load(environ)
    assert (config.schedule.zone.key, config.spend.zone.key) == ("Asia/Tokyo", "UTC")


@pytest.mark.parametrize("name", ["Mars/Olympus", "../etc/passwd", "Europe"])
def test_a_name_that_is_no_time_zone_is_refused(environ: dict[str, str], name: str) -> None:
    environ["DREAMD_SPEND__TIMEZONE"] = name

    assert "[spend] timezone is no time zone" in refused(environ).detail


def test_the_hosts_zone_is_the_variables_then_the_links_then_utc(tmp_path: Path) -> None:
    link = tmp_path / "localtime"
    link.symlink_to("/nowhere/zoneinfo/Asia/Kolkata")

    assert host_timezone({"TZ": ":Europe/Paris"}, link) == "Europe/Paris"
    assert host_timezone({"TZ": "/usr/share/zoneinfo/Europe/Paris"}, link) == "Europe/Paris"
    assert host_timezone({"TZ": "nonsense"}, link) == "Asia/Kolkata"
    assert host_timezone({}, link) == "Asia/Kolkata"
    assert host_timezone({}, tmp_path / "missing") == "UTC"


@pytest.mark.parametrize(
    ("listen", "address"),
    [("", None), ("[::1]:9000", ("::1", 9000)), ("0.0.0.0:80", ("0.0.0.0", 80)), ("localhost:0", ("localhost", 0))],
)
def test_metrics_listen_on_localhost_or_an_address(
    environ: dict[str, str], listen: str, address: tuple[str, int] | None
) -> None:
    environ["DREAMD_METRICS__LISTEN"] = listen

    assert load(environ).metrics.address == address


@pytest.mark.parametrize("listen", ["example.org:9464", "127.0.0.1", ":9464", "127.0.0.1:70000", "::1:9464"])
def test_metrics_refuse_names_and_half_addresses(environ: dict[str, str], listen: str) -> None:
    environ["DREAMD_METRICS__LISTEN"] = listen

    assert "[metrics] listen" in refused(environ).detail


@pytest.mark.parametrize("section", ["redact", "sensitivity"])
@pytest.mark.parametrize("pattern", ["(", "a*"])
def test_a_pattern_that_is_broken_or_matches_everything_is_refused(
    environ: dict[str, str], user_file: Path, section: str, pattern: str
) -> None:
    entry = f"name = '{pattern}'" if section == "redact" else f"'{pattern}' = 'secret'"

    assert f"[{section}] patterns pattern 1" in refused(environ, user_file, f"[{section}.patterns]\n{entry}\n").detail


def test_the_sample_names_and_describes_every_option() -> None:
    text = sample()

    for name, section in sections():
        assert f"\n[{name}]\n" in text
        for key, field in section.model_fields.items():
            assert f"\n# {key} = " in text
            assert field.description


@pytest.mark.parametrize("text", [sample(), re.sub(r"(?m)^# (?=[a-z_]+ = )", "", sample())])
def test_the_sample_changes_nothing_as_it_is_or_with_every_key_uncommented(
    environ: dict[str, str], user_file: Path, text: str
) -> None:
    defaults = load(environ)
    user_file.write_text(text)

    assert load(environ) == defaults.model_copy(update={"source": user_file})


def sections() -> list[tuple[str, type[BaseModel]]]:
    return [
        (name, field.annotation)
        for name, field in Config.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
    ]


def test_the_sensitivity_levels_are_the_stores() -> None:
    assert get_args(Sensitivity) == SENSITIVITIES


def test_the_environment_is_a_copy() -> None:
    copy = environment()

    assert copy["PATH"]
    assert copy is not environment()


def test_the_path_of_a_tokenizer_may_begin_at_home(environ: dict[str, str], home: Path) -> None:
    assert load(environ).context.tokenizer == ""
    assert load({**environ, "DREAMD_CONTEXT__TOKENIZER": "~/t.json"}).context.tokenizer == str(home / "t.json")
    assert load({**environ, "DREAMD_CONTEXT__TOKENIZER": "/t.json"}).context.tokenizer == "/t.json"
