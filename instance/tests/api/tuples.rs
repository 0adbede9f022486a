//! Derived tuples, rows and values: all write the same archive, and it is rkyv's own.

use crate::kit::{Aligned, archive};
use egret::tuple::{KeyHasher, Record, Row, RowLayout, Value, Values};
use egret::{Tuple, TupleError};
use proptest::prelude::*;

#[derive(Tuple, Debug, PartialEq)]
struct Everything<'a> {
    flag: bool,
    text: &'a str,
    a: u8,
    b: u16,
    bytes: &'a [u8],
    c: u32,
    d: u64,
    e: i8,
    owned: String,
    f: i16,
    g: i32,
    blob: Vec<u8>,
    h: i64,
    x: f32,
    y: f64,
}

/// The same fields as rkyv's own derive lays them out.
#[derive(rkyv::Archive, rkyv::Serialize)]
struct Reference {
    flag: bool,
    text: String,
    a: u8,
    b: u16,
    bytes: Vec<u8>,
    c: u32,
    d: u64,
    e: i8,
    owned: String,
    f: i16,
    g: i32,
    blob: Vec<u8>,
    h: i64,
    x: f32,
    y: f64,
}

#[derive(Debug, Clone)]
struct Input {
    flag: bool,
    numbers: (u64, i64, f64),
    text: String,
    owned: String,
    bytes: Vec<u8>,
    blob: Vec<u8>,
}

fn inputs() -> impl Strategy<Value = Input> {
    let text = || prop_oneof![".{0,4}", ".{0,100}", "[a-z]{0,12}"];
    let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
    let numbers = (any::<u64>(), any::<i64>(), any::<f64>());
    (any::<bool>(), numbers, text(), text(), bytes(), bytes()).prop_map(
        |(flag, numbers, text, owned, bytes, blob)| Input { flag, numbers, text, owned, bytes, blob },
    )
}

fn everything(input: &Input) -> Everything<'_> {
    let (unsigned, signed, float) = input.numbers;
    Everything {
        flag: input.flag,
        text: &input.text,
        a: unsigned as u8,
        b: unsigned as u16,
        bytes: &input.bytes,
        c: unsigned as u32,
        d: unsigned,
        e: signed as i8,
        owned: input.owned.clone(),
        f: signed as i16,
        g: signed as i32,
        blob: input.blob.clone(),
        h: signed,
        x: float as f32,
        y: float,
    }
}

fn reference(e: &Everything<'_>) -> Reference {
    Reference {
        flag: e.flag,
        text: e.text.to_owned(),
        a: e.a,
        b: e.b,
        bytes: e.bytes.to_owned(),
        c: e.c,
        d: e.d,
        e: e.e,
        owned: e.owned.clone(),
        f: e.f,
        g: e.g,
        blob: e.blob.clone(),
        h: e.h,
        x: e.x,
        y: e.y,
    }
}

fn key(record: &impl Record) -> u64 {
    let mut hasher = KeyHasher::new();
    (0..15).for_each(|i| hasher.update(record.value(i).unwrap()));
    hasher.finish()
}

proptest! {
    #[test]
    fn what_is_written_is_read(input in inputs()) {
        let written = everything(&input);
        let bytes = archive(&written);
        prop_assert_eq!(Everything::read(&bytes).unwrap(), written);
    }

    #[test]
    fn the_archive_is_rkyvs_own(input in inputs()) {
        let written = everything(&input);
        let own = rkyv::to_bytes::<rkyv::rancor::Error>(&reference(&written)).unwrap();
        prop_assert_eq!(&archive(&written)[..], &own[..]);
    }

    #[test]
    fn a_row_reads_and_writes_what_a_derived_type_does(input in inputs()) {
        let written = everything(&input);
        let bytes = archive(&written);
        let layout = RowLayout::new(Everything::schema());
        let row = Row::new(&layout, &bytes).unwrap();
        let values: Vec<Value<'_>> = row.fields().map(|(_, value)| value.unwrap()).collect();
        for (i, value) in values.iter().enumerate() {
            prop_assert_eq!(*value, written.value(i).unwrap());
        }
        let again = Values::new(&layout, &values).unwrap();
        prop_assert_eq!(&archive(&again)[..], &bytes[..]);
        prop_assert_eq!(&archive(&row)[..], &bytes[..]);
        prop_assert_eq!(key(&row), key(&written));
        prop_assert_eq!(key(&again), key(&written));
    }

    #[test]
    fn damaged_archives_never_panic(input in inputs(), damage: Vec<(u16, u8)>, cut: u8, shift in 0..8_usize) {
        let mut bytes = archive(&everything(&input));
        let len = bytes.len();
        damage.iter().for_each(|(at, with)| bytes[*at as usize % len] ^= with);
        read_all(&bytes);
        read_all(&bytes[..len.saturating_sub(cut as usize)]);
        read_all(&bytes[shift..]);
    }

    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read_all(&Aligned::from(bytes.as_slice()));
    }
}

/// Reads every field both ways and touches what it points to.
fn read_all(bytes: &[u8]) {
    if let Ok(read) = Everything::read(bytes) {
        assert!(read.text.chars().count() <= bytes.len() && read.bytes.len() <= bytes.len());
    }
    let layout = RowLayout::new(Everything::schema());
    let Ok(row) = Row::new(&layout, bytes) else { return };
    for (_, value) in row.fields() {
        let _ = value.map(|value| value.to_string());
    }
}

#[test]
fn a_damaged_tuple_is_explained() {
    let mut bytes = archive(&Flag { on: true });
    bytes[0] = 7;
    let error = Flag::read(&bytes).unwrap_err();
    assert!(matches!(error, TupleError::Corrupt { bytes: 1, .. }), "{error}");
    assert_eq!(
        Flag::read(&[]).unwrap_err().to_string(),
        "a tuple of 0 bytes is damaged: its fields take at least 1"
    );
}

#[derive(Tuple, Debug, PartialEq)]
struct Flag {
    on: bool,
}

#[derive(Tuple, Debug, PartialEq)]
struct Nothing {}

#[derive(Tuple, Debug, PartialEq)]
struct Keyword<'b> {
    r#type: &'b [u8],
}

#[test]
fn odd_types_work() {
    assert_eq!(Nothing::read(&archive(&Nothing {})).unwrap(), Nothing {});
    assert_eq!(Keyword::FIELDS, [("type", egret_dataplane::plan::FieldKind::Bytes)]);
    let short = Keyword { r#type: &[1, 2, 3] };
    assert_eq!(archive(&short)[3], 0, "what stood in the block before does not show");
    assert_eq!(Keyword::read(&archive(&short)).unwrap(), short);
}

#[test]
fn short_strings_of_every_length_stand_in_the_root() {
    #[derive(Tuple)]
    struct Text<'a> {
        text: &'a str,
    }
    for len in 0..20 {
        let text = &"abcdefghijklmnopqrst"[..len];
        let bytes = archive(&Text { text });
        assert_eq!(bytes.len(), if len <= 8 { 8 } else { len.next_multiple_of(4) + 8 });
        assert_eq!(Text::read(&bytes).unwrap().text, text);
    }
}

#[test]
fn fields_are_found_by_name() {
    let layout = RowLayout::new(Flag::schema());
    let bytes = archive(&Flag { on: true });
    let row = Row::new(&layout, &bytes).unwrap();
    assert_eq!(row.field("on"), Ok(Value::Bool(true)));
    let error = row.field("off").unwrap_err();
    assert_eq!(error.to_string(), "a tuple has no field `off`; its stream declares (`on`: bool)");
    assert_eq!(row.get(1), Err(TupleError::NoSuchField(1)));
}

#[test]
#[should_panic(expected = "out of range")]
fn too_little_space_is_a_panic() {
    let mut space = Aligned::from([0xaa; 32].as_slice());
    Keyword { r#type: &[1; 25] }.write(&mut space);
}
