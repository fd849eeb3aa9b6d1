//! Tables, their indexes, open handles and metadata locks.

use tare_engine::objects::ObjectRule;
use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

#[test]
fn a_table_counts_by_index_and_operation_and_keeps_it_when_closed() {
    let rig = Rig::new();
    rig.connect();
    let share = rig.share("shop", "orders", &["PRIMARY", "by_date", "c", "d", "e"]);
    let (one, other) = (rig.open_table(share, 0x1).unwrap(), rig.open_table(share, 0x2).unwrap());
    for table in [one, other] {
        rig.table_io(table, 0, 0, 10);
        rig.table_io(table, 1, 4, 1);
        rig.table_io(table, 2, MAX_INDEXES, 1);
        rig.table_lock(table, 0);
        rig.table_lock(table, 10);
    }
    let check = |rig: Rig| {
        let row = rig.tables().remove(0);
        assert_eq!((row.object_type, &*row.schema, &*row.name), ("TABLE", "shop", "orders"));
        let names: Vec<_> = row.indexes.iter().map(|index| index.name.as_deref()).collect();
        let wanted = [Some("PRIMARY"), Some("by_date"), Some("c"), Some("d"), Some("e"), None];
        assert_eq!(names, wanted);
        assert_eq!(row.indexes[0].io.fetch.count, 20);
        assert_eq!(row.indexes[1].io, TableIoStat::default());
        assert_eq!(row.indexes[4].io.insert.count, 2);
        assert_eq!(row.indexes[5].io.update.count, 2);
        let locks: Vec<u64> = row.locks.0.iter().map(|stat| stat.count).collect();
        assert_eq!(locks, [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    };
    check(rig);
    rig.close_table(one);
    check(rig);
    rig.close_table(other);
    check(rig);
    let wait = rig.waits(Scope::History).remove(0);
    assert_eq!(wait.object.schema.as_deref(), Some("shop"));
    assert_eq!(
        (wait.object.name.as_deref(), wait.object.index.as_deref()),
        (Some("orders"), Some("PRIMARY"))
    );
    assert_eq!(wait.operation, "fetch");
    assert_eq!(wait.object_instance_begin, 1);
}

#[test]
fn a_dropped_table_is_forgotten_and_open_handles_close_quietly() {
    let rig = Rig::new();
    rig.connect();
    let share = rig.share("db", "t", &["PRIMARY"]);
    let table = rig.open_table(share, 1).unwrap();
    rig.table_io(table, 0, 0, 3);
    rig.drop_table_share(&TableName { temporary: false, schema: b"db", name: b"t" });
    assert!(rig.tables().is_empty());
    rig.share("db", "t", &["PRIMARY"]);
    rig.close_table(table);
    assert_eq!(rig.tables()[0].indexes[0].io.fetch.count, 0, "the new table is another table");
    rig.drop_table_share(&TableName { temporary: false, schema: b"db", name: b"nothing" });
}

#[test]
fn rows_of_a_table_whose_keys_are_others_are_counted_anew() {
    let others: [&[&str]; 4] = [&["PRIMARY"], &["PRIMARY", "k", "l"], &["PRIMARY", "l"], &[]];
    for keys in others {
        let rig = Rig::new();
        rig.connect();
        let use_it = |keys: &[&str]| {
            let table = rig.open_table(rig.share("db", "t", keys), 1).unwrap();
            rig.table_io(table, 0, 0, 5);
            rig.table_io(table, 1, MAX_INDEXES, 1);
            rig.table_lock(table, 0);
            rig.close_table(table);
        };
        use_it(&["PRIMARY", "k"]);
        use_it(&["PRIMARY", "k"]);
        let row = rig.tables().remove(0);
        assert_eq!(
            (row.indexes[0].io.fetch.count, row.locks.0[0].count),
            (10, 2),
            "the same keys, the same table"
        );
        rig.share("db", "t", keys);
        let row = rig.tables().remove(0);
        let names: Vec<_> = row.indexes.iter().map(|index| index.name.as_deref().unwrap()).collect();
        assert_eq!(names, keys, "and no row without an index");
        assert!(row.indexes.iter().all(|index| index.io == TableIoStat::default()), "{row:?}");
        assert_eq!(row.locks.0[0].count, 2, "locks have no index");
        assert_eq!(rig.global_wait(TABLE_IO).count, 12, "what was done is done");
    }
}

#[test]
fn time_that_brought_no_row_shows_with_the_rows_that_come() {
    let rig = Rig::new();
    let thread = rig.connect();
    let table = rig.open_table(rig.share("db", "t", &["PRIMARY"]), 1).unwrap();
    let (nothing, before) = (Stat::default(), rig.lost());
    let shown = || {
        let fetch = rig.tables()[0].indexes[0].io.fetch;
        [fetch, rig.thread_wait(thread, TABLE_IO), rig.global_wait(TABLE_IO)]
    };
    rig.table_io(table, 0, 0, 0);
    assert_eq!(shown(), [nothing; 3]);
    rig.table_io(table, 0, 0, 2);
    assert!(
        shown().iter().all(|stat| stat.count == 2 && stat.sum_ps > u128::from(stat.max_ps)),
        "{:?}",
        shown()
    );
    rig.table_io(table, 1, 0, 0);
    rig.close_table(table);
    rig.delete_thread(thread);
    assert_eq!(rig.tables()[0].indexes[0].io.insert, nothing);
    assert_eq!(rig.lost(), before);
}

#[test]
fn an_event_on_a_table_that_is_gone_names_no_index() {
    let rig = Rig::new();
    rig.connect();
    let table = rig.open_table(rig.share("db", "t", &["PRIMARY"]), 1).unwrap();
    rig.table_io(table, 0, 0, 1);
    let named = || {
        let object = rig.waits(Scope::History).remove(0).object;
        (object.name, object.index)
    };
    assert_eq!(named(), (Some("t".into()), Some("PRIMARY".into())));
    rig.drop_table_share(&TableName { temporary: false, schema: b"db", name: b"t" });
    assert_eq!(named(), (Some("t".into()), None));
}

#[test]
fn a_table_share_is_one_per_name_and_temporary_tables_are_others() {
    let rig = Rig::new();
    rig.connect();
    let one = rig.share("db", "t", &[]);
    assert!(std::ptr::eq(one, rig.share("db", "t", &[])));
    assert!(!std::ptr::eq(one, rig.share("db", "u", &[])));
    let temporary = TableName { temporary: true, schema: b"db", name: b"t" };
    assert!(!std::ptr::eq(one, rig.table_share(&temporary, [].into_iter()).unwrap()));
    let types: Vec<_> = rig.tables().iter().map(|row| row.object_type).collect();
    assert_eq!(types.iter().filter(|t| **t == "TEMPORARY TABLE").count(), 1);
}

#[test]
fn a_table_the_rules_leave_out_is_not_watched() {
    let rig = Rig::new();
    rig.connect();
    let table = rig.open_table(rig.share("mysql", "user", &["PRIMARY"]), 1).unwrap();
    rig.table_io(table, 0, 0, 3);
    rig.table_lock(table, 0);
    assert_eq!(rig.global_wait(TABLE_IO).count, 0);
    assert!(!rig.tables()[0].is_shown);
}

fn object_rule(object_type: u8, schema: &str, name: &str, enabled: bool, timed: bool) -> ObjectRule {
    ObjectRule { object_type, schema: schema.to_owned(), name: name.to_owned(), enabled, timed }
}

#[test]
fn a_rule_that_changes_acts_at_once_on_what_there_is() {
    let rig = Rig::new();
    rig.connect();
    let table = rig.open_table(rig.share("db", "t", &["PRIMARY"]), 1).unwrap();
    let program = rig.program(objects::PROCEDURE, b"db", b"p").unwrap();
    let counted = || {
        let counts = || [TABLE_IO, TABLE_LOCK].map(|name| rig.global_wait(name).count);
        let before = counts();
        rig.reset(Reset::Events(EventType::Wait, Scope::History));
        rig.table_io(table, 0, 0, 3);
        rig.table_lock(table, 0);
        let after = counts();
        let timed = rig.waits(Scope::History).iter().filter(|row| row.head.timer.wait_ps.is_some()).count();
        (after[0] - before[0], after[1] - before[1], timed)
    };
    assert_eq!(counted(), (3, 1, 2));
    let untimed = object_rule(objects::TABLE, "db", "%", true, false);
    rig.add_rule(untimed.clone()).unwrap();
    assert_eq!(counted(), (3, 1, 0), "counted without times");
    assert!(rig.replace_rule(ObjectRule { enabled: false, ..untimed.clone() }));
    assert_eq!(counted(), (0, 0, 0));
    assert!(!rig.tables()[0].is_shown);
    assert!(rig.remove_rule(&untimed));
    assert_eq!(counted(), (3, 1, 2), "the rule about every schema decides again");
    assert!(!rig.remove_rule(&untimed) && !rig.replace_rule(untimed), "it is gone");

    assert!(rig.start_program(program).is_some_and(|start| start != 0));
    rig.add_rule(object_rule(objects::PROCEDURE, "db", "p", true, false)).unwrap();
    assert_eq!(rig.start_program(program), Some(0), "a call without a time");
    rig.reset(Reset::ObjectRules);
    assert_eq!(rig.start_program(program), None);
    assert_eq!(counted(), (0, 0, 0), "without rules nothing is watched");
    assert!(rig.rules::<ObjectRule>().is_empty());
}

#[test]
fn a_table_watched_no_more_forgets_what_closed_handles_counted() {
    let rig = Rig::new();
    rig.connect();
    let share = rig.share("db", "t", &[]);
    let table = rig.open_table(share, 1).unwrap();
    rig.table_io(table, 0, MAX_INDEXES, 3);
    rig.table_lock(table, 0);
    rig.close_table(table);
    let counted = || {
        let table = &rig.tables()[0];
        (table.indexes.iter().map(|index| index.io.fetch.count).sum::<u64>(), table.locks.0[0].count)
    };
    let rule = |enabled| object_rule(objects::TABLE, "db", "t", enabled, true);
    rig.add_rule(rule(true)).unwrap();
    assert_eq!(counted(), (3, 1));
    assert!(rig.replace_rule(rule(false)) && rig.replace_rule(rule(true)));
    assert_eq!(counted(), (0, 0));
}

#[test]
fn rules_are_one_per_key_and_bounded() {
    let rig = Rig::new();
    assert_eq!(rig.rules::<ObjectRule>().len(), 20);
    let rule = |n: usize| object_rule(objects::TABLE, "db", &n.to_string(), true, true);
    assert_eq!(rig.add_rule(rule(0)), Ok(()));
    assert_eq!(rig.add_rule(ObjectRule { timed: false, ..rule(0) }), Err(RuleError::Duplicate));
    assert_eq!(rig.rules::<ObjectRule>().last(), Some(&rule(0)), "the first one stays as it was");
    for n in 1..MAX_RULES - 20 {
        assert_eq!(rig.add_rule(rule(n)), Ok(()));
    }
    assert_eq!(rig.add_rule(rule(MAX_RULES)), Err(RuleError::Full));
}

#[test]
fn a_table_made_while_rules_change_is_decided_by_the_last_of_them() {
    let rig = Rig::new();
    let rule = object_rule(objects::TABLE, "db", "%", false, false);
    for round in 0..200 {
        let name = format!("t{round}");
        std::thread::scope(|threads| {
            threads.spawn(|| {
                rig.connect();
                rig.share("db", &name, &[]);
            });
            if round % 2 == 0 { rig.add_rule(rule.clone()).unwrap() } else { assert!(rig.remove_rule(&rule)) }
        });
        let table = rig.tables().into_iter().find(|table| table.name == name).unwrap();
        assert_eq!(table.is_shown, round % 2 != 0, "{name}");
    }
}

#[test]
fn the_key_names_of_an_altered_table_are_the_new_ones() {
    let rig = Rig::new();
    rig.connect();
    rig.share("db", "t", &["PRIMARY", "old"]);
    rig.share("db", "t", &["PRIMARY"]);
    let names: Vec<_> = rig.tables()[0].indexes.iter().map(|index| index.name.clone().unwrap()).collect();
    assert_eq!(names, ["PRIMARY"]);
}

#[test]
fn a_metadata_lock_is_named_until_its_place_is_used_again() {
    let rig = Rig::new();
    rig.connect();
    let what =
        MetadataName { namespace: 3, names: b"db.t", schema_len: 2, lock_type: 1, duration: 1, status: 0 };
    let lock = rig.create_metadata_lock(0x77, || Some(what), here()).unwrap();
    let wait = rig.start_metadata_wait(lock, here()).unwrap();
    rig.end_wait(&wait, 1, None);
    rig.set_metadata_lock_status(lock, 1);
    let row = rig.waits(Scope::History).remove(0);
    assert_eq!((row.head.name, row.operation), (METADATA, "metadata lock"));
    assert_eq!(row.object.object_type, Some("TABLE"));
    assert_eq!((row.object.schema.as_deref(), row.object.name.as_deref()), (Some("db"), Some("t")));
    rig.destroy_metadata_lock(lock);
    // Locks nobody waits for come and go by the thousand: they leave it its name.
    for n in 0..2_000 {
        let other = rig.create_metadata_lock(n, || Some(what), here()).unwrap();
        rig.destroy_metadata_lock(other);
    }
    assert_eq!(rig.waits(Scope::History)[0].object.name.as_deref(), Some("t"));
    let named = |n| {
        let other = rig.create_metadata_lock(n, || Some(what), here()).unwrap();
        let wait = rig.start_metadata_wait(other, here()).unwrap();
        rig.end_wait(&wait, 1, None);
        rig.destroy_metadata_lock(other);
        rig.waits(Scope::HistoryLong)[0].object.name.is_some()
    };
    assert!((0..60).all(named));
    assert!(!(60..200).all(named));
}

#[test]
fn a_metadata_lock_takes_the_place_of_the_one_before_unless_somebody_waited_for_that() {
    let rig = Rig::new();
    rig.connect();
    let create = |names: &'static [u8]| {
        let what = MetadataName { namespace: 3, names, schema_len: 2, lock_type: 1, duration: 1, status: 0 };
        rig.create_metadata_lock(7, || Some(what), here()).unwrap()
    };
    let awaited = || rig.waits(Scope::History)[0].object.name.clone();
    let first = create(b"db.a");
    rig.destroy_metadata_lock(first);
    let second = create(b"db.b");
    assert_eq!(second.address(), first.address());
    let wait = rig.start_metadata_wait(second, here()).unwrap();
    rig.end_wait(&wait, 1, None);
    assert_eq!(awaited().as_deref(), Some("b"));
    rig.destroy_metadata_lock(second);
    assert_ne!(create(b"db.c").address(), second.address());
    assert_eq!(awaited().as_deref(), Some("b"));
}

#[test]
fn names_of_metadata_locks_have_any_length() {
    let rig = Rig::new();
    rig.connect();
    for len in 1..120 {
        let name = "n".repeat(len);
        let names = &*format!("db.{name}");
        let what = MetadataName {
            namespace: 3,
            names: names.as_bytes(),
            schema_len: 2,
            lock_type: 1,
            duration: 1,
            status: 0,
        };
        let lock = rig.create_metadata_lock(7, || Some(what), here()).unwrap();
        let object = rig.metadata_locks().remove(0).object;
        assert_eq!((object.schema.as_deref(), object.name.as_deref()), (Some("db"), Some(&*name)));
        rig.destroy_metadata_lock(lock);
    }
}

#[test]
fn metadata_locks_are_rows_while_somebody_has_or_awaits_them() {
    let rig = Rig::new();
    let thread = rig.connect();
    rig.wait(rig.class.mutex);
    let what =
        MetadataName { namespace: 3, names: b"db.t", schema_len: 2, lock_type: 1, duration: 1, status: 0 };
    let lock = rig.create_metadata_lock(0x77, || Some(what), here()).unwrap();
    let row = rig.metadata_locks().remove(0);
    assert_eq!((row.object.object_type, row.object_instance_begin), (Some("TABLE"), 0x77));
    assert_eq!((row.object.schema.as_deref(), row.object.name.as_deref()), (Some("db"), Some("t")));
    assert_eq!((row.lock_type, row.duration, row.status), ("SHARED", "TRANSACTION", "PENDING"));
    assert_eq!(row.source.as_deref(), Some("place.cc:42"));
    assert_eq!(row.owner_thread_id, thread.thread_id());
    assert!(row.owner_event_id > 0);
    rig.set_metadata_lock_status(lock, 1);
    assert_eq!(rig.metadata_locks()[0].status, "GRANTED");
    let schema =
        MetadataName { namespace: 2, names: b"db", schema_len: 2, lock_type: 0, duration: 0, status: 1 };
    rig.create_metadata_lock(0x78, || Some(schema), here()).unwrap();
    let schema = rig.metadata_locks().into_iter().find(|row| row.object.object_type == Some("SCHEMA"));
    assert_eq!(schema.unwrap().object.name, None);
    rig.destroy_metadata_lock(lock);
    assert_eq!(rig.metadata_locks().len(), 1);
}

#[test]
fn an_open_table_shows_who_uses_it_and_how_it_is_locked() {
    let rig = Rig::new();
    let thread = rig.connect();
    let table = rig.open_table(rig.share("db", "t", &["PRIMARY"]), 0x99).unwrap();
    rig.set_table_lock(table, false, Some(9));
    rig.set_table_lock(table, true, Some(4));
    let row = rig.table_handles().remove(0);
    assert_eq!((row.object_type, &*row.schema, &*row.name), ("TABLE", "db", "t"));
    assert_eq!((row.object_instance_begin, row.owner_thread_id), (0x99, thread.thread_id()));
    assert_eq!((row.internal_lock, row.external_lock), (Some("WRITE"), Some("READ EXTERNAL")));
    rig.set_table_lock(table, false, None);
    rig.unbind_table(table);
    let row = rig.table_handles().remove(0);
    assert_eq!((row.owner_thread_id, row.owner_event_id, row.internal_lock), (0, 0, None));
    let rule = |enabled| object_rule(objects::TABLE, "db", "t", enabled, true);
    rig.add_rule(rule(false)).unwrap();
    assert!(rig.table_handles().is_empty(), "of a table that is not watched nothing is shown");
    rig.replace_rule(rule(true));
    assert_eq!(rig.table_handles().len(), 1);
    rig.drop_table_share(&TableName { temporary: false, schema: b"db", name: b"t" });
    assert!(rig.table_handles().is_empty(), "of a dropped table nothing is known");
    rig.close_table(table);
}
