//! Tests of the extraction of names, which evaluate the SQL like a server.

/// An SQL value: text, also for numbers, or NULL.
type Value = Option<String>;

/// Evaluator of the SQL that the view's expressions consist of. It evaluates while it parses.
struct Evaluator<'a> {
    rest: &'a str,
    columns: &'a [(&'a str, Value)],
}

impl<'a> Evaluator<'a> {
    fn take(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Returns the text before `sign`, and takes the sign, too.
    fn until(&mut self, sign: &str) -> &'a str {
        let (before, rest) = self.rest.split_once(sign).expect("an end");
        self.rest = rest;
        before
    }

    fn expression(&mut self) -> Value {
        let left = self.term();
        if self.take(" = ") {
            let right = self.term();
            return Some(i64::from(left? == right?).to_string());
        }
        if self.take(" + ") {
            let right = self.term();
            return Some((number(&left?) + number(&right?)).to_string());
        }
        left
    }

    fn term(&mut self) -> Value {
        if self.take("'") {
            return Some(self.until("'").to_owned());
        }
        if self.take("x'") {
            let digits = self.until("'");
            let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits");
            return Some((0..digits.len()).step_by(2).map(|at| char::from(byte(at))).collect());
        }
        if self.take("`") {
            let name = format!("{}.{}", self.until("`.`"), self.until("`"));
            return self.columns.iter().find(|(known, _)| *known == name).expect("a column").1.clone();
        }
        let end = self.rest.find(|it: char| !it.is_ascii_digit() && it != '-').unwrap_or(self.rest.len());
        if end > 0 {
            let (number, rest) = self.rest.split_at(end);
            self.rest = rest;
            return Some(number.to_owned());
        }
        self.call()
    }

    fn call(&mut self) -> Value {
        let name = self.until("(");
        let mut arguments = Vec::new();
        if self.take("trailing ") {
            arguments.push(self.expression());
            assert!(self.take(" from "), "{}", self.rest);
        }
        loop {
            arguments.push(self.expression());
            if self.take(")") {
                return called(name, &arguments);
            }
            assert!(self.take(","), "{}", self.rest);
        }
    }
}

fn number(text: &str) -> i64 {
    text.parse().expect("a number")
}

fn called(name: &str, arguments: &[Value]) -> Value {
    match (name, arguments) {
        ("if", [condition, yes, no]) => {
            let holds = condition.as_ref().is_some_and(|it| it != "0");
            return if holds { yes.clone() } else { no.clone() };
        }
        ("nullif", [left, right]) => return left.clone().filter(|_| left != right),
        _ => {}
    }
    let arguments = arguments.iter().map(Option::as_deref).collect::<Option<Vec<&str>>>()?;
    Some(match (name, &arguments[..]) {
        ("replace", &[text, from, to]) => text.replace(from, to),
        ("substring_index", &[text, sign, "1"]) => text.split(sign).next().unwrap_or(text).to_owned(),
        ("substring_index", &[text, sign, "-1"]) => text.rsplit(sign).next().unwrap_or(text).to_owned(),
        ("substr", &[text, from]) => {
            let before = usize::try_from(number(from) - 1).expect("from 1 on");
            text.chars().skip(before).collect()
        }
        ("locate", &[sought, text]) => {
            text.find(sought).map_or(0, |at| text[..at].chars().count() + 1).to_string()
        }
        ("right", &[text, count]) => {
            let count = usize::try_from(number(count)).expect("a count");
            text.chars().skip(text.chars().count().saturating_sub(count)).collect()
        }
        ("ascii", &[text]) => text.bytes().next().unwrap_or(0).to_string(),
        ("trim", &[sign, text]) => text.trim_end_matches(sign).to_owned(),
        other => panic!("{other:?}"),
    })
}

fn evaluated(expression: &str, columns: &[(&str, Value)]) -> Value {
    let mut evaluator = Evaluator { rest: expression, columns };
    let value = evaluator.expression();
    assert_eq!(evaluator.rest, "", "of {expression}");
    value
}

/// Returns schema, table, partition and subpartition.
fn taken_apart(lock_table: &str) -> [Value; 4] {
    let told = [("i.lock_table", Some(lock_table.to_owned()))];
    let columns = [("l.head", evaluated(head!(), &told)), ("l.parts", evaluated(parts!(), &told))];
    [schema!(), table!(), partition!(), subpartition!()].map(|expression| evaluated(expression, &columns))
}

#[test]
fn a_table_is_told_whatever_quotes_its_name() {
    for (told, schema, table) in [
        ("`test`.`t`", "test", "t"),
        (r#""test"."t""#, "test", "t"),
        ("test.t", "test", "t"),
        // A quoting character within a name is doubled, the other one is not.
        ("`a``b`.`c``d`", "a`b", "c`d"),
        ("`d`.```b`", "d", "`b"),
        (r#"`a"b`.`c"d`"#, "a\"b", "c\"d"),
        (r#""a""b"."c`d""#, "a\"b", "c`d"),
        // Names that need no quotes have none.
        ("`a b`.t", "a b", "t"),
        ("`a.b`.t", "a.b", "t"),
        ("test.`order`", "test", "order"),
        (r#"test."c.d""#, "test", "c.d"),
        (r#"test."c`d""#, "test", "c`d"),
        ("größe.ü", "größe", "ü"),
    ] {
        let wanted = [Some(schema.to_owned()), Some(table.to_owned()), None, None];
        assert_eq!(taken_apart(told), wanted, "{told}");
    }
}

#[test]
fn a_partition_is_told_whatever_quotes_its_name_and_in_every_language() {
    for (told, partition, part) in [
        ("`s`.`t` /* Partition `p0` */", "p0", None),
        ("`s`.`t` /* Partition `p0`, Subpartition `p0sp0` */", "p0", Some("p0sp0")),
        (r#""s"."t" /* Partition "p0" */"#, "p0", None),
        (r#""s"."t" /* Partition "p0", Subpartition "p0sp0" */"#, "p0", Some("p0sp0")),
        ("s.t /* Partition p0 */", "p0", None),
        ("s.t /* Partition p0, Subpartition p0sp0 */", "p0", Some("p0sp0")),
        ("s.t /* Partition `p-0`, Subpartition p0sp0 */", "p-0", Some("p0sp0")),
        (r#"s.t /* Partition p0, Subpartition "s 0" */"#, "p0", Some("s 0")),
        ("`s`.`t` /* Partition `p, 0` */", "p, 0", None),
        ("`s`.`t` /* Partition `p``0`, Subpartition `s``0` */", "p`0", Some("s`0")),
        ("`s`.`t` /* Partición `p0`, Subpartición `p0sp0` */", "p0", Some("p0sp0")),
        ("s.t /* 分区 p0, 下分区 p0sp0 */", "p0", Some("p0sp0")),
        ("`s`.`t` /* Temporary Partition `p0` */", "p0", None),
    ] {
        let wanted = [Some("s"), Some("t"), Some(partition), part].map(|it| it.map(str::to_owned));
        assert_eq!(taken_apart(told), wanted, "{told}");
    }
}
