//! The generated layouts against each other, and the choice of a layout by the server's version.

#[allow(dead_code, unreachable_pub)]
#[path = "../src/abi/mod.rs"]
mod abi;

use abi::{Series, vtable_135, vtable_136};

#[test]
fn a_series_is_chosen_by_the_whole_version_text() {
    assert_eq!(Series::of("10.6.23-MariaDB-0ubuntu0.22.04.1"), Some(Series::V10_6));
    assert_eq!(Series::of("10.11.19-MariaDB-0+deb12u1"), Some(Series::V10_11));
    assert_eq!(Series::of("10.11.5-MariaDB"), Some(Series::V10_11));
    assert_eq!(Series::of("11.4.5-MariaDB-log"), Some(Series::V11_4));
    assert_eq!(Series::of("11.8.9-MariaDB-4 from Debian"), Some(Series::V11_8));
    let others = [
        "",
        "10.11",
        "10.11-MariaDB",
        "10.11.-MariaDB",
        "10.60.1-MariaDB",
        "11.40.1-MariaDB",
        "8.0.36",
        "5.7.1-log",
    ];
    for other in others {
        assert_eq!(Series::of(other), None, "{other}");
    }
}

#[test]
fn series_differ_in_the_one_known_slot() {
    let (old, new) = (Series::V10_11.slot_names(), Series::V11_8.slot_names());
    assert_eq!(old, Series::V10_6.slot_names());
    assert_eq!(old, Series::V11_4.slot_names());
    let added: Vec<_> = new.iter().filter(|slot| !old.contains(slot)).collect();
    assert_eq!(added, [&"get_thread_class_name"]);
    let without: Vec<_> = new.iter().filter(|slot| old.contains(slot)).collect();
    assert_eq!(without, old.iter().collect::<Vec<_>>());
    assert_eq!((old.len(), new.len()), (135, 136));
}

#[test]
fn every_series_has_the_layout_that_the_generator_found() {
    let found = |series: &[&str], slots: &[&str]| {
        for name in series {
            let series = Series::ALL.into_iter().find(|it| it.name() == *name).expect("a supported series");
            assert_eq!(series.slot_names(), slots, "{name}");
        }
        series.len()
    };
    let read = found(&vtable_135::SERIES, &vtable_135::SLOT_NAMES)
        + found(&vtable_136::SERIES, &vtable_136::SLOT_NAMES);
    assert_eq!(read, Series::ALL.len(), "the generator read every series");
}
