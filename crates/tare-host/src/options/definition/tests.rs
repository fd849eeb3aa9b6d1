use super::super::InstrumentSetting;
use super::*;

fn set(line: &str) -> Result<Options, OptionError> {
    let mut options = Options::defaults();
    let entry = GivenOption::parse("tare", line, OptionOrigin::CommandLine).expect("an option");
    apply(&mut options, &entry).map(|()| options)
}

#[test]
fn every_option_is_named_once_documented_and_has_a_default_it_accepts() {
    for (position, def) in OPTIONS.iter().enumerate() {
        assert!(OPTIONS[..position].iter().all(|other| other.name != def.name), "{}", def.name);
        let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        assert!(def.name.bytes().all(is_plain), "{}", def.name);
        assert!(def.doc.ends_with('.'), "{}", def.name);
        if !def.default.is_empty() {
            assert_eq!(def.set(&mut Options::default(), def.default), Ok(()), "{}", def.name);
        }
    }
}

#[test]
fn every_option_goes_to_a_field_of_its_own() {
    let values = |def: &OptionDef| match def.kind {
        OptionType::Switch(_) => if def.default == "ON" { "OFF" } else { "ON" }.to_owned(),
        OptionType::Size(min, ..) => min.to_string(),
        OptionType::Count(min, ..) | OptionType::Seconds(min, ..) => min.to_string(),
        OptionType::Duration(min, ..) | OptionType::Interval(min, ..) => value::show_duration(min),
        OptionType::Sample(_) => "1/64".to_owned(),
        OptionType::Shape(_) => "EXTENDED".to_owned(),
        OptionType::Budget(_) => "2%".to_owned(),
        OptionType::Socket(_) | OptionType::File(_) => "/run/tare.sock".to_owned(),
        OptionType::Instrument(_) | OptionType::Consumer(_) | OptionType::Level(_) => "%=OFF".to_owned(),
    };
    let mut seen: Vec<Options> = vec![Options::defaults()];
    for def in OPTIONS {
        let options = set(&format!("{}={}", def.name, values(def))).unwrap();
        assert!(!seen.contains(&options), "{} shares a field", def.name);
        seen.push(options);
    }
}

#[test]
fn bounds_are_inside() {
    for def in OPTIONS {
        let (min, max) = match def.kind {
            OptionType::Size(min, max, _) => (min, max),
            OptionType::Count(min, max, _) | OptionType::Seconds(min, max, _) => {
                (u64::from(min), u64::from(max))
            }
            _ => continue,
        };
        for inside in [min, max] {
            assert!(set(&format!("{}={inside}", def.name)).is_ok(), "{} {inside}", def.name);
        }
        assert!(set(&format!("{}={}", def.name, max + 1)).is_err(), "{}", def.name);
        if min > 0 {
            assert!(set(&format!("{}={}", def.name, min - 1)).is_err(), "{}", def.name);
        }
    }
}

#[test]
fn spellings_the_server_knows_are_known_here() {
    for (line, memory_max) in [("memory-max=8M", 8 << 20), ("memory_max=8M", 8 << 20)] {
        assert_eq!(set(line).unwrap().memory_max, memory_max);
    }
    for (line, tables) in [
        ("tables", true),
        ("tables=0", false),
        ("skip-tables", false),
        ("disable_tables", false),
        ("enable-tables", true),
        ("loose-tables=OFF", false),
    ] {
        assert_eq!(set(line).unwrap().tables, tables, "{line}");
    }
    assert_eq!(set("loose-future-option=1").unwrap(), Options::defaults());
}

#[test]
fn the_last_matching_rule_decides() {
    let mut options = Options::defaults();
    for line in ["instrument=wait/%=OFF", "instrument=wait/synch/%=COUNTED", "instrument='wait/io/% = on'"] {
        let entry = GivenOption::parse("tare", line, OptionOrigin::CommandLine).unwrap();
        apply(&mut options, &entry).unwrap();
    }
    for (name, setting) in [
        ("wait/lock/table/sql/handler", Some(InstrumentSetting::Off)),
        ("wait/synch/mutex/sql/LOCK_open", Some(InstrumentSetting::Counted)),
        ("wait/io/file/sql/binlog", Some(InstrumentSetting::On)),
        ("statement/sql/select", None),
    ] {
        assert_eq!(options.instrument(name), setting, "{name}");
    }
    let options = set("consumer=events_waits%=OFF").unwrap();
    assert_eq!(options.consumer("events_waits_current"), Some(false));
    assert_eq!(options.consumer("statements_digest"), None);
}

#[test]
fn a_wrong_value_is_refused_with_what_would_be_right() {
    let long = format!("socket=/{}", "x".repeat(socket::MAX_SOCKET_PATH));
    for (line, problem, allowed) in [
        ("memory-max=5", "wrong value '5'", "8M to 4G (bytes, or with K, M or G)"),
        ("memory-max", "needs a value", "8M to 4G (bytes, or with K, M or G)"),
        ("tables=maybe", "wrong value 'maybe'", "ON or OFF"),
        ("skip-tables=1", "takes no value in this form", "ON or OFF"),
        ("skip-memory-max", "no such option", "enabled, memory-max"),
        ("memory-min=1", "no such option", "enabled, memory-max"),
        ("levle=lean", "no such option (did you mean 'level'?)", "enabled, memory-max"),
        ("elephants=5", "no such option", "enabled, memory-max"),
        ("level=leen", "wrong value 'leen' (did you mean 'lean'?)", "exact, lean, sampled"),
        ("level=wait/%=smapled", "(did you mean 'sampled'?)", "exact, lean, sampled"),
        ("instrument=wait/%", "wrong value 'wait/%'", "pattern=ON"),
        ("instrument==ON", "wrong value '=ON'", "pattern=ON"),
        ("instrument=wait/%=SOME", "wrong value 'wait/%=SOME'", "pattern=COUNTED"),
        ("consumer=events_wait=ON", "no consumer is called 'events_wait'", "events_waits_current"),
        ("consumer=%=COUNTED", "wrong value '%=COUNTED'", "pattern=OFF"),
        ("socket=tare.sock", "not an absolute path", "an absolute path of at most 103 bytes"),
        (&long, "has 104 bytes", "an absolute path of at most 103 bytes"),
        ("budget=2", "wrong value '2'", "OFF, or a share such as 1% or 0.5%"),
        ("budget=0%", "wrong value '0%'", "at most 100%"),
        ("budget-every=0", "wrong value '0'", "1 to 3600"),
        ("prices=tare.toml", "not an absolute path", "an absolute path"),
        ("shape=round", "wrong value 'round'", "strict or extended"),
        ("loose-memory-max=1", "wrong value '1'", "8M"),
    ] {
        let error = set(line).expect_err(line);
        assert!(error.problem.contains(problem), "{line}: {error}");
        assert!(error.allowed.contains(allowed), "{line}: {error}");
    }
    assert!(!set("elephants=5").expect_err("unknown").problem.contains("mean"), "nothing is near it");
    for level in value::levels() {
        assert!(value::level_setting(level).is_some(), "{level} is a level");
    }
}
