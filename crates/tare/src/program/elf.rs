//! Programs and shared objects, read from their files without running them.

use std::collections::HashMap;
use std::ffi::CStr;
use std::fs;
use std::path::{Path, PathBuf};

use memchr::{memchr, memmem, memrchr};
use object::LittleEndian;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, Rela, SectionHeader, Sym};
use tare_host::process::Image;

const WORD: usize = size_of::<usize>();

/// The reason why a file cannot be analysed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}: {1}")]
    Read(PathBuf, std::io::Error),
    #[error("{path} is cut off: by its own headers it has {expected} bytes, and there are {found}")]
    CutOff {
        path: PathBuf,
        expected: u64,
        found: u64,
        /// Whether the missing part is to be loaded: the loader maps it, and reading it crashes the process.
        loaded: bool,
    },
    #[error("{0} is not made for x86-64 Linux")]
    Foreign(PathBuf),
    #[error("{0} is a script; name the program that it starts")]
    Script(PathBuf),
    #[error("{0} is damaged: {1}")]
    Damaged(PathBuf, object::Error),
}

/// A complete file in memory.
pub(crate) struct Elf {
    path: PathBuf,
    bytes: Vec<u8>,
    /// The exported symbols by name: address and size.
    symbols: HashMap<String, (usize, usize)>,
}

/// A required version of another object's symbols: `GLIBC_2.34` of `libc.so.6`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Needed {
    pub(crate) library: String,
    pub(crate) version: String,
}

type ElfHeader = FileHeader64<LittleEndian>;

impl Elf {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Elf, Error> {
        let bytes = fs::read(path).map_err(|error| Error::Read(path.into(), error))?;
        if bytes.starts_with(b"#!") {
            return Err(Error::Script(path.into()));
        }
        let header = ElfHeader::parse(&*bytes).map_err(|error| match bytes.len() {
            found @ 0..64 => {
                Error::CutOff { path: path.into(), expected: 64, found: found as u64, loaded: false }
            }
            _ if bytes.starts_with(b"\x7fELF") => Error::Damaged(path.into(), error),
            _ => Error::Foreign(path.into()),
        })?;
        if header.e_machine.get(LittleEndian) != elf::EM_X86_64 {
            return Err(Error::Foreign(path.into()));
        }
        let (loaded, expected) = ends(header, &bytes);
        let found = bytes.len() as u64;
        if expected > found {
            return Err(Error::CutOff { path: path.into(), expected, found, loaded: loaded > found });
        }
        let symbols = symbols(header, &bytes).map_err(|error| Error::Damaged(path.into(), error))?;
        Ok(Elf { path: path.into(), bytes, symbols })
    }

    /// Returns the address of an exported symbol.
    pub(crate) fn symbol(&self, name: &CStr) -> Option<usize> {
        self.symbol_and_size(name).map(|(at, _)| at)
    }

    /// Returns the address of an exported symbol, and its size.
    pub(crate) fn symbol_and_size(&self, name: &CStr) -> Option<(usize, usize)> {
        let name = name.to_str().ok()?;
        self.symbols.get(name).copied()
    }

    /// Returns whether it exports a symbol whose name begins so.
    pub(crate) fn exports_beginning(&self, begin: &str) -> bool {
        self.symbols.keys().any(|exported| exported.starts_with(begin))
    }

    /// Returns the required versions of other objects' symbols.
    pub(crate) fn needs(&self) -> Result<Vec<Needed>, Error> {
        self.versions_needed().map_err(|error| self.damaged(error))
    }

    /// Returns the versions of its own symbols.
    pub(crate) fn has(&self) -> Result<Vec<String>, Error> {
        self.versions_defined().map_err(|error| self.damaged(error))
    }

    /// Returns it as it would be in memory, loaded at address 0.
    pub(crate) fn loaded(&self) -> Result<ProgramSegments, Error> {
        self.load().map_err(|error| self.damaged(error))
    }

    fn damaged(&self, error: object::Error) -> Error {
        Error::Damaged(self.path.clone(), error)
    }

    fn header(&self) -> object::Result<&ElfHeader> {
        ElfHeader::parse(&*self.bytes)
    }

    fn versions_needed(&self) -> object::Result<Vec<Needed>> {
        let sections = self.header()?.sections(LittleEndian, &*self.bytes)?;
        let Some((mut libraries, link)) = sections.gnu_verneed(LittleEndian, &*self.bytes)? else {
            return Ok(vec![]);
        };
        let strings = sections.strings(LittleEndian, &*self.bytes, link)?;
        let mut needed = vec![];
        while let Some((library, mut versions)) = libraries.next()? {
            let library = text(library.file(LittleEndian, strings)?);
            while let Some(version) = versions.next()? {
                // A weak one may be absent.
                if !version.vna_flags.get(LittleEndian).contains(elf::VER_FLG_WEAK) {
                    let version = text(version.name(LittleEndian, strings)?);
                    needed.push(Needed { library: library.clone(), version });
                }
            }
        }
        Ok(needed)
    }

    fn versions_defined(&self) -> object::Result<Vec<String>> {
        let sections = self.header()?.sections(LittleEndian, &*self.bytes)?;
        let Some((mut versions, link)) = sections.gnu_verdef(LittleEndian, &*self.bytes)? else {
            return Ok(vec![]);
        };
        let strings = sections.strings(LittleEndian, &*self.bytes, link)?;
        let mut defined = vec![];
        while let Some((_, mut names)) = versions.next()? {
            if let Some(name) = names.next()? {
                defined.push(text(name.name(LittleEndian, strings)?));
            }
        }
        Ok(defined)
    }

    fn load(&self) -> object::Result<ProgramSegments> {
        let header = self.header()?;
        let mut loaded = ProgramSegments { code: (0, vec![]), data: vec![], constants: vec![] };
        for segment in header.program_headers(LittleEndian, &*self.bytes)? {
            if segment.p_type(LittleEndian) != elf::PT_LOAD {
                continue;
            }
            let address = as_size(segment.p_vaddr(LittleEndian));
            let bytes = segment.data(LittleEndian, &*self.bytes).unwrap_or_default().to_vec();
            match segment.p_flags(LittleEndian) {
                flags if flags.contains(elf::PF_X) => loaded.code = (address, bytes),
                flags if flags.contains(elf::PF_W) => loaded.data.push(WordSegment::new(address, &bytes)),
                _ => loaded.constants.push((address, bytes)),
            }
        }
        // The values that the loader would write at address 0; packed relocations have theirs in place
        // already.
        let sections = header.sections(LittleEndian, &*self.bytes)?;
        let symbols = sections.symbols(LittleEndian, &*self.bytes, elf::SHT_DYNSYM)?;
        for section in sections.iter() {
            let Some((relocations, _)) = section.rela(LittleEndian, &*self.bytes)? else { continue };
            for relocation in relocations {
                let addend = relocation.r_addend(LittleEndian).cast_unsigned();
                let value = match relocation.r_type(LittleEndian, false) {
                    elf::R_X86_64_RELATIVE => addend,
                    elf::R_X86_64_64 | elf::R_X86_64_GLOB_DAT | elf::R_X86_64_JUMP_SLOT => {
                        let symbol = relocation.symbol(LittleEndian, false);
                        let symbol = symbol.and_then(|index| symbols.symbol(index).ok());
                        // Another object's symbol has no address here.
                        let Some(symbol) = symbol.filter(|it| !it.is_undefined(LittleEndian)) else {
                            continue;
                        };
                        symbol.st_value(LittleEndian).wrapping_add(addend)
                    }
                    _ => continue,
                };
                loaded.write(as_size(relocation.r_offset(LittleEndian)), as_size(value));
            }
        }
        Ok(loaded)
    }
}

/// The segments of a program.
pub(crate) struct ProgramSegments {
    code: (usize, Vec<u8>),
    data: Vec<WordSegment>,
    constants: Vec<(usize, Vec<u8>)>,
}

struct WordSegment {
    address: usize,
    words: Vec<usize>,
}

impl WordSegment {
    /// Starts with the first whole word.
    fn new(address: usize, bytes: &[u8]) -> WordSegment {
        let start = address.next_multiple_of(WORD);
        let whole = bytes.get(start - address..).unwrap_or_default().chunks_exact(WORD);
        let word = |bytes: &[u8]| usize::from_le_bytes(bytes.try_into().unwrap_or_default());
        WordSegment { address: start, words: whole.map(word).collect() }
    }
}

impl ProgramSegments {
    /// Returns the parts that are searched for the built-in's functions.
    pub(crate) fn image(&self) -> Image<'_> {
        let (address, code) = &self.code;
        Image {
            address: *address,
            code,
            data: self.data.iter().map(|data| (data.address, &*data.words)).collect(),
        }
    }

    /// Returns the code from an address on, at most `most` bytes.
    pub(crate) fn code_at(&self, address: usize, most: usize) -> Option<&[u8]> {
        let code = self.code.1.get(address.checked_sub(self.code.0)?..)?;
        Some(&code[..most.min(code.len())])
    }

    /// Returns the texts of an array of pointers that ends with a null.
    pub(crate) fn texts_at(&self, array: usize) -> Vec<String> {
        let texts = (0..).map_while(|position| self.text_at(self.word_at(array + position * WORD)?));
        texts.collect()
    }

    /// Returns the first text among the constants that has this word in it and `fits`. Only where the word is
    /// are bytes looked at as a text: a server has tens of megabytes of them.
    pub(crate) fn constant(&self, word: &str, fits: impl Fn(&str) -> bool) -> Option<String> {
        let texts = self.constants().flat_map(|(_, bytes)| {
            memmem::find_iter(bytes, word).map(|at| {
                let begin = memrchr(0, &bytes[..at]).map_or(0, |zero| zero + 1);
                let end = memchr(0, &bytes[at..]).map_or(bytes.len(), |length| at + length);
                &bytes[begin..end]
            })
        });
        texts.filter_map(|text| std::str::from_utf8(text).ok()).find(|text| fits(text)).map(str::to_owned)
    }

    fn word_at(&self, address: usize) -> Option<usize> {
        let of = |data: &WordSegment| {
            let offset = address.checked_sub(data.address)?;
            data.words.get(offset / WORD).copied().filter(|_| offset.is_multiple_of(WORD))
        };
        self.data.iter().find_map(of)
    }

    fn text_at(&self, address: usize) -> Option<String> {
        let of = |(start, bytes): &(usize, Vec<u8>)| {
            let bytes = bytes.get(address.checked_sub(*start)?..)?;
            Some(text(bytes.split(|byte| *byte == 0).next()?))
        };
        self.constants().find_map(of)
    }

    /// Returns the places of constants: segments of their own, or, with older linkers, the code.
    fn constants(&self) -> impl Iterator<Item = &(usize, Vec<u8>)> {
        self.constants.iter().chain([&self.code])
    }

    fn write(&mut self, address: usize, value: usize) {
        for data in &mut self.data {
            let Some(offset) = address.checked_sub(data.address) else { continue };
            if let Some(word) = data.words.get_mut(offset / WORD).filter(|_| offset.is_multiple_of(WORD)) {
                *word = value;
            }
        }
    }
}

/// Returns the lengths that the file needs for its loaded parts, and for everything in its headers.
fn ends(header: &ElfHeader, bytes: &[u8]) -> (u64, u64) {
    let endian = LittleEndian;
    let sections =
        header.e_shoff(endian) + u64::from(header.e_shnum(endian)) * u64::from(header.e_shentsize(endian));
    let segments =
        header.e_phoff(endian) + u64::from(header.e_phnum(endian)) * u64::from(header.e_phentsize(endian));
    let segment_end = |segment: &elf::ProgramHeader64<LittleEndian>| {
        segment.p_offset(endian).saturating_add(segment.p_filesz(endian))
    };
    let parts = header.program_headers(endian, bytes).unwrap_or_default().iter();
    let loaded = parts.map(segment_end).max().unwrap_or_default();
    (loaded, loaded.max(sections).max(segments))
}

fn symbols(header: &ElfHeader, bytes: &[u8]) -> object::Result<HashMap<String, (usize, usize)>> {
    let sections = header.sections(LittleEndian, bytes)?;
    let table = sections.symbols(LittleEndian, bytes, elf::SHT_DYNSYM)?;
    let exported = table.iter().filter(|symbol| !symbol.is_undefined(LittleEndian));
    exported
        .map(|symbol| {
            let name = text(symbol.name(LittleEndian, table.strings())?);
            Ok((name, (as_size(symbol.st_value(LittleEndian)), as_size(symbol.st_size(LittleEndian)))))
        })
        .collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Converts a value; this program is 64-bit, as are the files it reads.
fn as_size(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_constant_is_found_also_among_the_code() {
        let folder = tempfile::tempdir().expect("folder");
        let source = folder.path().join("version.c");
        let code =
            "const char other[] = \"not a -MariaDB\\0a -MariaDB of\", version[] = \"10.11.7-MariaDB\";";
        fs::write(&source, code).expect("file");
        for how in ["separate-code", "noseparate-code"] {
            let object = folder.path().join(how);
            let mut compiler = Command::new("cc");
            compiler.args(["-shared", "-fPIC", "-z", how, "-o"]).args([&object, &source]);
            assert!(compiler.status().expect("a C compiler, which `make setup` installs").success());
            let loaded = Elf::read(&object).and_then(|file| file.loaded()).expect("an object");
            let found = loaded.constant("-MariaDB", |text| text.starts_with("10.") && text.ends_with('B'));
            assert_eq!(found.as_deref(), Some("10.11.7-MariaDB"), "{how}");
            assert_eq!(loaded.constant("-MariaDB", |text| text == "-MariaDB"), None, "{how}");
        }
    }
}
