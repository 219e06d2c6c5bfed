import pytest
from jetstream_server.base.errors import ConfigError
from jetstream_server.core.steps import without_pauses
from jetstream_server.net.token_folder import TokenFolder


@pytest.fixture
def key(credentials):
    return credentials.account_key("A").public


def test_what_is_saved_is_there_again(tmp_path, key):
    folder = TokenFolder(str(tmp_path / "some" / "jwt"))
    assert without_pauses(folder.tokens()) == {}
    folder.save(key, "one")
    folder.save(key, "two")
    assert without_pauses(TokenFolder(str(tmp_path / "some" / "jwt")).tokens()) == {key: "two"}
    assert [path.name for path in (tmp_path / "some" / "jwt").iterdir()] == [f"{key}.jwt"]


def test_what_is_deleted_is_put_aside(tmp_path, key):
    folder = TokenFolder(str(tmp_path))
    folder.delete(key)
    folder.save(key, "one")
    folder.delete(key)
    assert without_pauses(folder.tokens()) == {}
    assert (tmp_path / f"{key}.jwt.deleted").read_text() == "one"


def test_other_files_are_left_alone(tmp_path, key):
    for name in ("notes.txt", "x.jwt", f"{key}.jwt.tmp"):
        (tmp_path / name).write_text("x")
    (tmp_path / f"{key}.jwt").write_text("token\n")
    assert without_pauses(TokenFolder(str(tmp_path)).tokens()) == {key: "token"}


def test_a_folder_that_can_not_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"resolver: .*file/jwt can not be used"):
        TokenFolder(str(tmp_path / "file" / "jwt"))


def test_a_file_that_can_not_be_read(tmp_path, key):
    (tmp_path / f"{key}.jwt").mkdir()
    with pytest.raises(ConfigError, match="resolver: "):
        without_pauses(TokenFolder(str(tmp_path)).tokens())
