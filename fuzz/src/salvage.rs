//! What can be saved of a file that is refused.

use offshoot_format::{Container, decode_as};

use crate::{check, files};

/// Any bytes as a damaged file of any version: what is saved is a session that a file of its own holds and that has nothing
/// more to be saved; and of a file that is whole, nothing is lost.
pub fn salvage(bytes: &[u8]) {
    let file = files::file(bytes);
    let container = Container::detect(&file);
    let whole = decode_as(container, &file);
    let saved = match offshoot_format::salvage(container, &file) {
        Ok(saved) => saved,
        Err(error) => {
            check::explains(&error);
            assert!(
                whole.is_err(),
                "a file that can be read can be saved: {error}"
            );
            return;
        }
    };
    let written = check::reads_back(container, &saved.header, &saved.log);
    assert_eq!(written.inherited, saved.inherited);

    let bytes = check::encoded(container, &saved.header, &saved.log);
    let again =
        offshoot_format::salvage(container, &bytes).expect("what was saved is a whole file");
    assert!(again.loss.is_none());
    assert_eq!(check::texts(&again.log), check::texts(&saved.log));

    if let Ok(whole) = whole
        && whole.tail.is_none()
    {
        assert!(saved.loss.is_none());
        assert_eq!(saved.header, whole.header);
        assert_eq!(saved.inherited, whole.inherited);
        assert_eq!(check::texts(&saved.log), check::texts(&whole.log));
    }
}
