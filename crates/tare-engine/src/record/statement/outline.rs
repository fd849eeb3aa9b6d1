//! Outlines of statements, for a server whose blocks somebody else decodes: where each statement begins, and
//! what its record only refers to.

use crate::layout::journal::kind;
use crate::layout::statement::{
    CHARSET, DIGEST, DIGEST_CHARSET, DigestRef, HEAD, LENGTHS, SCHEMA, STATEMENT, TEXT, TEXT_CUT, VALUES,
};
use crate::memory::text::CopiedText;
use crate::snapshot::ClassId;

/// What a record refers to and only the host can resolve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatementOutline<'a> {
    pub(crate) class: ClassId,
    pub(crate) digest: DigestRef,
    /// The number of the text's character set.
    pub(crate) charset: u32,
    pub(crate) sql: CopiedText<'a>,
    pub(crate) text_cut: bool,
}

/// Calls `each` with the outline of each statement that [`super::decode::decode`] finds in these words.
/// Returns the same rest.
#[inline]
pub(crate) fn outlines<'a>(mut words: &'a [u64], mut each: impl FnMut(StatementOutline<'a>)) -> &'a [u64] {
    while let Some((outline, rest)) = first(words) {
        each(outline);
        words = rest;
    }
    words
}

#[inline(always)]
fn first(words: &[u64]) -> Option<(StatementOutline<'_>, &[u64])> {
    let (head, rest) = words.split_first_chunk::<HEAD>()?;
    if kind(head[0]) != STATEMENT {
        return None;
    }
    let [.., class, set, lengths] = *head;
    // Few enough for half a word, whose bits are counted faster.
    const { assert!(VALUES <= 32) };
    let values = (set & ((1 << VALUES) - 1)) as u32;
    let digest = if set & 1 << DIGEST == 0 {
        DigestRef { charset: (set >> DIGEST_CHARSET) as u32, ..DigestRef::default() }
    } else {
        let before = (values & ((1 << DIGEST) - 1)).count_ones();
        DigestRef::of(*rest.get(before as usize)?, set)
    };
    let texts = rest.get(values.count_ones() as usize..)?;
    let all: usize = LENGTHS.iter().map(|length| length.words(lengths)).sum();
    let rest = texts.get(all..)?;
    let (sql, _) = CopiedText::first(&texts[SCHEMA.words(lengths)..], TEXT.of(lengths))?;
    let outline = StatementOutline {
        class: class as ClassId,
        digest,
        charset: (set >> CHARSET) as u32 & 0xFFFF,
        sql,
        text_cut: lengths & TEXT_CUT != 0,
    };
    Some((outline, rest))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::decode::decode;
    use super::*;

    /// Returns a record, or what looks like the beginning of one.
    fn record() -> impl Strategy<Value = Vec<u64>> {
        let lengths = (0..20u64, 0..90u64, 0..3u64, 0..30u64, any::<u64>()).prop_map(
            |(schema, text, cut, message, high)| {
                schema | text << 8 | message << 36 | cut << 56 | (high & 0xF) << 20
            },
        );
        let head =
            (any::<u64>(), any::<u64>(), any::<u64>(), lengths).prop_map(|(what, class, set, lengths)| {
                vec![what & !7 | STATEMENT, 1, 2, 3, class, set & set.rotate_left(7), lengths]
            });
        (head, vec(any::<u64>(), 0..60)).prop_map(|(head, behind)| [head, behind].concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

        #[test]
        #[cfg_attr(miri, ignore = "too many cases for Miri")]
        fn an_outline_is_of_what_is_decoded(
            records in vec(record(), 0..6), cut in 0..40usize, end in vec(any::<u64>(), 0..3),
        ) {
            // Records of the length they say, then one that is not.
            let mut words = vec![];
            for record in records {
                let rest = outlines(&record, |_| {});
                let whole = record.len() - rest.len();
                words.extend_from_slice(&record[..whole]);
            }
            words.truncate(words.len().saturating_sub(cut % 7));
            words.extend(end);
            let (mut decoded, mut outlined) = (vec![], vec![]);
            let rest = decode(&words, |event, texts| {
                decoded.push(StatementOutline {
                    class: event.class,
                    digest: event.digest,
                    charset: event.charset,
                    sql: texts.sql,
                    text_cut: event.text_cut,
                });
            });
            let behind = outlines(&words, |outline| outlined.push(outline));
            prop_assert_eq!(&outlined, &decoded);
            prop_assert_eq!(behind, rest);
        }
    }
}
