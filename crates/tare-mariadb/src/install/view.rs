//! The file of a view: text with one key and value per line.
//!
//! The rows are collected first (`algorithm` 2), as for a table, so a column has the name that the query
//! uses. A server parses `query` when it opens the view, and CHECK TABLE compares it with `md5`. `suid`
//! decides whose rights count when the view is read: 0 is SQL SECURITY INVOKER, so ordinary grants decide, as
//! for a table. The definer is not checked then; the one named here is that of the server's own views.

use md5::{Digest, Md5};

use super::COMMENT;

/// The first line.
const HEAD: &str = "TYPE=VIEW\n";
/// The text for SHOW CREATE VIEW, which the server's parser never sees. It contains the mark.
const SOURCE: &str = "\nsource=/* ";
/// The creation time of every view, in microseconds. It is constant, so that the same view is the same file.
const TIMESTAMP: &str = "0001700000000000000";
/// The server version that a file claims to come from: old enough for every server, new enough to need no
/// upgrade.
const SERVER_VERSION: &str = "101100";

/// Writes the view `name` of this SELECT, which must need no escapes: printable ASCII without backslashes.
pub(super) fn write(name: &str, body: &str) -> Vec<u8> {
    let md5: String = Md5::digest(body.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "{HEAD}query={body}\nmd5={md5}\nupdatable=0\nalgorithm=2\ndefiner_user=mariadb.sys\n\
         definer_host=localhost\nsuid=0\nwith_check_option=0\ntimestamp={TIMESTAMP}\ncreate-version=2\
         {SOURCE}{COMMENT}, {name} */ {body}\nclient_cs_name=utf8mb3\n\
         connection_cl_name=utf8mb3_general_ci\nview_body_utf8={body}\nmariadb-version={SERVER_VERSION}\n"
    )
    .into_bytes()
}

/// Returns the comment in a file that [`write()`] wrote for this view, in this or another version.
pub(super) fn read_mark(file: &[u8], name: &str) -> Option<String> {
    let text = std::str::from_utf8(file).ok()?.strip_prefix(HEAD)?;
    let (comment, _) = text.split_once(SOURCE)?.1.split_once(" */ ")?;
    let (comment, named) = comment.split_once(", ")?;
    (named == name && comment.starts_with("tare ")).then(|| comment.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_known_again_under_its_own_name_only() {
        let file = write("pair", "SELECT 1 AS `A`");
        assert_eq!(read_mark(&file, "pair").as_deref(), Some(COMMENT));
        assert_eq!(read_mark(&file, "pairs"), None);
        let text = String::from_utf8(file).expect("text");
        for other in [
            text.replace("/* tare ", "/* other "),
            text.replace("TYPE=VIEW", "TYPE=TABLE"),
            text.replace(" */ ", " "),
            text.split_once("source").map(|(before, _)| before.to_owned()).unwrap_or_default(),
        ] {
            assert_eq!(read_mark(other.as_bytes(), "pair"), None, "{other}");
        }
    }

    /// Compares with the server's own checksum of the same text.
    #[test]
    fn the_sum_is_the_servers() {
        let file = write("one", "select 1 AS `1`");
        let text = String::from_utf8(file).expect("text");
        assert!(text.contains("\nmd5=027c479bb8630bbe6c0eb559baa70ab5\n"), "{text}");
    }
}
