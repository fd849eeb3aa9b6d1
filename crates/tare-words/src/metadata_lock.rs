//! Metadata locks: the names of their types, and which of them keep a session waiting.
//!
//! A type has MariaDB's number; types that only MySQL has come after them.

/// A kind of locked objects. Each has rules of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namespace {
    /// Backups, and FLUSH TABLES WITH READ LOCK: MariaDB only.
    Backup,
    /// A schema, a tablespace, or everything.
    Scope,
    /// A table, a routine, or a name.
    Object,
}

/// A type of locks.
#[derive(Debug)]
struct LockType {
    /// LOCK_TYPE.
    name: &'static str,
    /// For a session that wants one: the granted types that are in its way, a bit for each number.
    granted: u16,
    /// The pending types that are in its way.
    pending: u16,
}

const fn lock_type(name: &'static str, granted: u16, pending: u16) -> LockType {
    LockType { name, granted, pending }
}

/// The bits of the types of [`OBJECT`] and [`SCOPE`].
mod kind {
    pub(super) const INTENTION_EXCLUSIVE: u16 = 1;
    pub(super) const SHARED: u16 = 1 << 1;
    pub(super) const HIGH_PRIO: u16 = 1 << 2;
    pub(super) const READ: u16 = 1 << 3;
    pub(super) const WRITE: u16 = 1 << 4;
    pub(super) const UPGRADABLE: u16 = 1 << 5;
    pub(super) const READ_ONLY: u16 = 1 << 6;
    pub(super) const NO_WRITE: u16 = 1 << 7;
    pub(super) const NO_READ_WRITE: u16 = 1 << 8;
    pub(super) const EXCLUSIVE: u16 = 1 << 9;
    pub(super) const WRITE_LOW_PRIO: u16 = 1 << 10;
}

/// The bits of the types of [`BACKUP`].
mod backup {
    pub(super) const START: u16 = 1;
    pub(super) const FLUSH: u16 = 1 << 1;
    pub(super) const WAIT_FLUSH: u16 = 1 << 2;
    pub(super) const WAIT_DDL: u16 = 1 << 3;
    pub(super) const WAIT_COMMIT: u16 = 1 << 4;
    pub(super) const FTWRL1: u16 = 1 << 5;
    pub(super) const FTWRL2: u16 = 1 << 6;
    pub(super) const DML: u16 = 1 << 7;
    pub(super) const TRANS_DML: u16 = 1 << 8;
    pub(super) const SYS_DML: u16 = 1 << 9;
    pub(super) const DDL: u16 = 1 << 10;
    pub(super) const BLOCK_DDL: u16 = 1 << 11;
    pub(super) const ALTER_COPY: u16 = 1 << 12;
    pub(super) const COMMIT: u16 = 1 << 13;
}

/// The types of locks on a table, a routine, or a name. Only MySQL has the last.
const OBJECT: &[LockType] = {
    use kind::*;
    const ALTERS: u16 = NO_WRITE | NO_READ_WRITE | EXCLUSIVE;
    const WRITES: u16 = WRITE | WRITE_LOW_PRIO;
    const READS: u16 = SHARED | HIGH_PRIO | READ;
    &[
        lock_type("INTENTION_EXCLUSIVE", 0, 0),
        lock_type("SHARED", EXCLUSIVE, EXCLUSIVE),
        lock_type("SHARED_HIGH_PRIO", EXCLUSIVE, 0),
        lock_type("SHARED_READ", NO_READ_WRITE | EXCLUSIVE, NO_READ_WRITE | EXCLUSIVE),
        lock_type("SHARED_WRITE", READ_ONLY | ALTERS, ALTERS),
        lock_type("SHARED_UPGRADABLE", UPGRADABLE | ALTERS, EXCLUSIVE),
        lock_type("SHARED_READ_ONLY", WRITES | NO_READ_WRITE | EXCLUSIVE, WRITE | NO_READ_WRITE | EXCLUSIVE),
        lock_type("SHARED_NO_WRITE", WRITES | UPGRADABLE | ALTERS, EXCLUSIVE),
        lock_type("SHARED_NO_READ_WRITE", READ | WRITES | UPGRADABLE | READ_ONLY | ALTERS, EXCLUSIVE),
        lock_type("EXCLUSIVE", READS | WRITES | UPGRADABLE | READ_ONLY | ALTERS, 0),
        lock_type("SHARED_WRITE_LOW_PRIO", READ_ONLY | ALTERS, READ_ONLY | ALTERS),
    ]
};

/// The types of locks on a schema, or on everything. The other numbers have names, and no rules.
const SCOPE: &[LockType] = {
    use kind::{EXCLUSIVE, INTENTION_EXCLUSIVE, SHARED};
    &[
        lock_type("INTENTION_EXCLUSIVE", SHARED | EXCLUSIVE, SHARED | EXCLUSIVE),
        lock_type("SHARED", INTENTION_EXCLUSIVE | EXCLUSIVE, EXCLUSIVE),
        lock_type("SHARED_HIGH_PRIO", 0, 0),
        lock_type("SHARED_READ", 0, 0),
        lock_type("SHARED_WRITE", 0, 0),
        lock_type("SHARED_UPGRADABLE", 0, 0),
        lock_type("SHARED_READ_ONLY", 0, 0),
        lock_type("SHARED_NO_WRITE", 0, 0),
        lock_type("SHARED_NO_READ_WRITE", 0, 0),
        lock_type("EXCLUSIVE", INTENTION_EXCLUSIVE | SHARED | EXCLUSIVE, 0),
    ]
};

/// The types of locks of MariaDB's backups and of FLUSH TABLES WITH READ LOCK, and of those that wait for
/// them.
const BACKUP: &[LockType] = {
    use backup::*;
    const STAGES: u16 = FLUSH | WAIT_FLUSH | WAIT_DDL | WAIT_COMMIT;
    const FTWRL: u16 = FTWRL1 | FTWRL2;
    const ALL_DML: u16 = DML | TRANS_DML | SYS_DML | DDL | ALTER_COPY;
    const BEFORE_DDL: u16 = WAIT_DDL | WAIT_COMMIT | FTWRL | BLOCK_DDL;
    &[
        lock_type("BACKUP_START", START | STAGES | BLOCK_DDL, STAGES | BLOCK_DDL),
        lock_type("BACKUP_FLUSH", START, 0),
        lock_type("BACKUP_WAIT_FLUSH", START | DML, 0),
        lock_type("BACKUP_WAIT_DDL", START | DML | DDL, 0),
        lock_type("BACKUP_WAIT_COMMIT", START | DML | SYS_DML | DDL | COMMIT, 0),
        lock_type("BACKUP_FTWRL1", ALL_DML, 0),
        lock_type("BACKUP_FTWRL2", ALL_DML | COMMIT, 0),
        lock_type("BACKUP_DML", STAGES | FTWRL, STAGES | FTWRL),
        lock_type("BACKUP_TRANS_DML", FTWRL, FTWRL),
        lock_type("BACKUP_SYS_DML", WAIT_COMMIT | FTWRL, WAIT_COMMIT | FTWRL),
        lock_type("BACKUP_DDL", BEFORE_DDL, BEFORE_DDL),
        lock_type("BACKUP_BLOCK_DDL", START | STAGES | BLOCK_DDL | DDL, START),
        lock_type("BACKUP_ALTER_COPY", FTWRL, FTWRL),
        lock_type("BACKUP_COMMIT", WAIT_COMMIT | FTWRL2, WAIT_COMMIT | FTWRL2),
    ]
};

impl Namespace {
    /// Returns the namespace of an OBJECT_TYPE, of MariaDB or MySQL.
    ///
    /// # Examples
    ///
    /// ```
    /// use tare_words::metadata_lock::Namespace;
    ///
    /// assert_eq!(Namespace::of("TABLE"), Namespace::Object);
    /// assert_eq!(Namespace::of("SCHEMA"), Namespace::Scope);
    /// ```
    #[must_use]
    pub fn of(object_type: &str) -> Namespace {
        match object_type {
            "SCHEMA" | "GLOBAL" | "COMMIT" | "TABLESPACE" | "BACKUP LOCK" | "ACL CACHE"
            | "RESOURCE_GROUPS" => Namespace::Scope,
            "BACKUP" => Namespace::Backup,
            _ => Namespace::Object,
        }
    }

    const fn types(self) -> &'static [LockType] {
        match self {
            Namespace::Backup => BACKUP,
            Namespace::Scope => SCOPE,
            Namespace::Object => OBJECT,
        }
    }

    /// Returns LOCK_TYPE of the type with this number; `None` for a number that no type has.
    #[must_use]
    pub const fn type_name(self, number: usize) -> Option<&'static str> {
        let types = self.types();
        if number < types.len() { Some(types[number].name) } else { None }
    }

    /// Returns the number of the type with this LOCK_TYPE.
    #[must_use]
    pub fn type_number(self, name: &str) -> Option<usize> {
        self.types().iter().position(|it| it.name == name)
    }

    /// Returns whether a lock of type `held`, granted or waited for, keeps a session waiting that wants one
    /// of type `wanted` on the same object. Numbers that no type has are in nobody's way.
    ///
    /// # Examples
    ///
    /// ```
    /// use tare_words::metadata_lock::Namespace;
    ///
    /// let number = |name| Namespace::Object.type_number(name).expect("a type");
    /// let (read, exclusive) = (number("SHARED_READ"), number("EXCLUSIVE"));
    /// assert!(Namespace::Object.is_in_the_way(exclusive, read, true)); // ALTER TABLE waits for a reader
    /// assert!(Namespace::Object.is_in_the_way(read, exclusive, false)); // a reader queues behind it
    /// assert!(!Namespace::Object.is_in_the_way(read, read, true));
    /// ```
    #[must_use]
    pub fn is_in_the_way(self, wanted: usize, held: usize, is_granted: bool) -> bool {
        let (Some(wanted), true) = (self.types().get(wanted), held < self.types().len()) else {
            return false;
        };
        let in_the_way = if is_granted { wanted.granted } else { wanted.pending };
        in_the_way & 1 << held != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether `held` is in the way of who wants `wanted`: where it is granted, and where it is
    /// waited for.
    fn judged(namespace: Namespace, wanted: &str, held: &str) -> [bool; 2] {
        let [wanted, held] = [wanted, held].map(|name| namespace.type_number(name).expect(name));
        [true, false].map(|is_granted| namespace.is_in_the_way(wanted, held, is_granted))
    }

    #[test]
    fn only_types_that_exclude_each_other_are_in_the_way() {
        use Namespace::{Backup, Object, Scope};
        for (namespace, wanted, held, expected) in [
            (Object, "EXCLUSIVE", "SHARED_READ", [true, false]), // ALTER waits for a reader
            (Object, "SHARED_READ", "EXCLUSIVE", [true, true]),  // and a reader queues behind ALTER
            (Object, "SHARED_READ", "SHARED_WRITE", [false, false]),
            (Object, "SHARED_READ_ONLY", "SHARED_WRITE", [true, true]),
            (Object, "SHARED_READ_ONLY", "SHARED_WRITE_LOW_PRIO", [true, false]),
            (Object, "SHARED_WRITE_LOW_PRIO", "SHARED_READ_ONLY", [true, true]),
            (Object, "SHARED_HIGH_PRIO", "EXCLUSIVE", [true, false]),
            (Object, "SHARED_NO_WRITE", "SHARED_READ", [false, false]),
            (Object, "SHARED_NO_WRITE", "SHARED_NO_WRITE", [true, false]), // GET_LOCK
            (Scope, "INTENTION_EXCLUSIVE", "INTENTION_EXCLUSIVE", [false, false]),
            (Scope, "SHARED", "INTENTION_EXCLUSIVE", [true, false]),
            (Backup, "BACKUP_DML", "BACKUP_FTWRL1", [true, true]),
            (Backup, "BACKUP_FTWRL2", "BACKUP_COMMIT", [true, false]),
            (Backup, "BACKUP_BLOCK_DDL", "BACKUP_START", [true, true]),
        ] {
            assert_eq!(judged(namespace, wanted, held), expected, "{wanted} while {held} is there");
        }
        let [table, none] = [Object.types().len() - 1, Object.types().len()];
        assert!(!Object.is_in_the_way(table, none, true) && !Object.is_in_the_way(none, table, true));
        assert!(!Object.is_in_the_way(9, 200, true), "no such type");
    }

    #[test]
    fn types_that_exclude_each_other_do_so_whoever_was_first() {
        for namespace in [Namespace::Object, Namespace::Scope, Namespace::Backup] {
            let numbers = 0..namespace.types().len();
            for (one, other) in numbers.clone().flat_map(|one| numbers.clone().map(move |other| (one, other)))
            {
                let granted = |wanted, held| namespace.is_in_the_way(wanted, held, true);
                // The first stages of a backup do not wait for those that wait for them.
                let both_ways = namespace == Namespace::Backup || granted(one, other) == granted(other, one);
                assert!(both_ways, "{namespace:?}: {one} and {other}");
                // Precedence only matters between types that exclude each other.
                let behind = namespace.is_in_the_way(one, other, false);
                assert!(!behind || granted(one, other), "{namespace:?}: {one} behind {other}");
            }
        }
    }

    #[test]
    fn a_name_and_a_number_lead_to_each_other() {
        for namespace in [Namespace::Object, Namespace::Scope, Namespace::Backup] {
            for number in 0..namespace.types().len() {
                let name = namespace.type_name(number).expect("a type");
                assert_eq!(namespace.type_number(name), Some(number), "{name}");
            }
        }
        assert_eq!([Namespace::Backup.type_name(14), Namespace::Scope.type_name(10)], [None; 2]);
        assert_eq!(Namespace::Object.type_number("BACKUP_DML"), None);
    }
}
