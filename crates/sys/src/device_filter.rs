//! Device access of a version 2 cgroup: an eBPF program that the kernel runs at every open and mknod of a device.

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    path::Path,
};

/// Attaches a program that allows only these devices: rules such as `c 1:3 rwm`, `b *:* m`, or `a` for all.
pub(crate) fn attach(group: &Path, rules: &[String]) -> io::Result<()> {
    let rules = rules.iter().map(|rule| Rule::parse(rule)).collect::<io::Result<Vec<_>>>()?;
    let program = load(&program(&rules)?)?;
    let group = File::open(group)?;
    let attach = ProgAttachAttr {
        target: raw(&group)?,
        program: raw(&program)?,
        kind: CGROUP_DEVICE,
        flags: ALLOW_MULTI,
    };
    bpf(PROG_ATTACH, &attach).map(drop)
}

const PROG_LOAD: libc::c_int = 5;
const PROG_ATTACH: libc::c_int = 8;
const PROGRAM_TYPE: u32 = 15;
const CGROUP_DEVICE: u32 = 6;
/// Other cgroups above and below keep their own programs; access needs the consent of all.
const ALLOW_MULTI: u32 = 2;

const MKNOD: i32 = 1;
const READ: i32 = 2;
const WRITE: i32 = 4;
const ALL_ACCESS: i32 = MKNOD | READ | WRITE;

/// A device rule. `None` matches any value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rule {
    kind: Option<i32>,
    major: Option<i32>,
    minor: Option<i32>,
    access: i32,
}

impl Rule {
    fn parse(text: &str) -> io::Result<Self> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidInput, format!("device rule {text:?}"));
        if text == "a" {
            return Ok(Self { access: ALL_ACCESS, ..Self::default() });
        }
        let mut words = text.split(' ');
        let (Some(kind), Some(numbers), Some(access), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(wrong());
        };
        let number = |text: &str| match text {
            "*" => Ok(None),
            text => text.parse::<u16>().map(|number| Some(i32::from(number))).map_err(|_| wrong()),
        };
        let minor = |text: &str| match text {
            "*" => Ok(None),
            text => text.parse().ok().filter(|minor| *minor >= 0).map(Some).ok_or_else(wrong),
        };
        let numbers = numbers.split_once(':').ok_or_else(wrong)?;
        let access = access.chars().try_fold(0, |all, one| match one {
            'm' => Ok(all | MKNOD),
            'r' => Ok(all | READ),
            'w' => Ok(all | WRITE),
            _ => Err(wrong()),
        })?;
        let kind = match kind {
            "b" => 1,
            "c" => 2,
            _ => return Err(wrong()),
        };
        Ok(Self { kind: Some(kind), major: number(numbers.0)?, minor: minor(numbers.1)?, access })
    }

    /// The checks, which jump past the rule when one fails, followed by "return 1".
    fn instructions(self) -> Vec<Instruction> {
        let mut checks = Vec::new();
        let differs = |register, value: Option<i32>| {
            value.map(|value| Instruction::new(JUMP_IF_NOT_VALUE, register, 0, value))
        };
        checks.extend(differs(KIND, self.kind));
        checks.extend(differs(MAJOR, self.major));
        checks.extend(differs(MINOR, self.minor));
        if self.access != ALL_ACCESS {
            checks.push(Instruction::new(COPY, SCRATCH, ACCESS, 0));
            checks.push(Instruction::new(AND, SCRATCH, 0, self.access));
            checks.push(Instruction::new(JUMP_IF_NOT_SAME, SCRATCH, ACCESS, 0));
        }
        let length = checks.len() + 2;
        for (at, check) in checks.iter_mut().enumerate() {
            if matches!(check.code, JUMP_IF_NOT_VALUE | JUMP_IF_NOT_SAME) {
                check.offset =
                    i16::try_from(length - at - 1).expect("a rule has six checks at most");
            }
        }
        checks.extend(return_value(1));
        checks
    }
}

/// An eBPF instruction, in the kernel's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct Instruction {
    code: u8,
    /// Destination register in the low half, source register in the high half.
    registers: u8,
    offset: i16,
    value: i32,
}

const LOAD_WORD: u8 = 0x61;
const COPY: u8 = 0xbc;
const AND: u8 = 0x54;
const SHIFT_RIGHT: u8 = 0x74;
const JUMP_IF_NOT_VALUE: u8 = 0x55;
const JUMP_IF_NOT_SAME: u8 = 0x5d;
const SET: u8 = 0xb7;
const EXIT: u8 = 0x95;

const RESULT: u8 = 0;
/// Holds the context at first; free once that is read.
const SCRATCH: u8 = 1;
const KIND: u8 = 2;
const ACCESS: u8 = 3;
const MAJOR: u8 = 4;
const MINOR: u8 = 5;

impl Instruction {
    fn new(code: u8, target: u8, source: u8, value: i32) -> Self {
        Self { code, registers: target | source << 4, offset: 0, value }
    }

    fn load(target: u8, offset: i16) -> Self {
        Self { offset, ..Self::new(LOAD_WORD, target, SCRATCH, 0) }
    }
}

fn return_value(value: i32) -> [Instruction; 2] {
    [Instruction::new(SET, RESULT, 0, value), Instruction::new(EXIT, 0, 0, 0)]
}

fn program(rules: &[Rule]) -> io::Result<Vec<Instruction>> {
    let all = Rule { access: ALL_ACCESS, ..Rule::default() };
    if rules.contains(&all) {
        return Ok(return_value(1).into()); // the kernel rejects programs with unreachable instructions
    }
    let mut program = vec![
        Instruction::load(KIND, 0),
        Instruction::new(AND, KIND, 0, 0xffff),
        Instruction::load(ACCESS, 0),
        Instruction::new(SHIFT_RIGHT, ACCESS, 0, 16),
        Instruction::load(MAJOR, 4),
        Instruction::load(MINOR, 8),
    ];
    program.extend(rules.iter().flat_map(|rule| rule.instructions()));
    program.extend(return_value(0));
    if program.len() > 4096 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many device rules"));
    }
    Ok(program)
}

/// Attributes of `BPF_PROG_LOAD`.
#[repr(C)]
struct ProgLoadAttr {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
}

/// Attributes of `BPF_PROG_ATTACH`.
#[repr(C)]
struct ProgAttachAttr {
    target: u32,
    program: u32,
    kind: u32,
    flags: u32,
}

fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    let license = c"Apache-2.0"; // the program calls nothing that asks for another
    let load = ProgLoadAttr {
        kind: PROGRAM_TYPE,
        count: u32::try_from(program.len()).map_err(io::Error::other)?,
        instructions: program.as_ptr().expose_provenance() as u64,
        license: license.as_ptr().expose_provenance() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
    };
    let fd = bpf(PROG_LOAD, &load)?;
    // SAFETY: the kernel has just opened it, and nobody else uses it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<i32> {
    // SAFETY: the kernel reads `attributes`, which is of the size given, and what it points to: a program and a text
    // that the caller holds; it verifies the program.
    let done = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>())
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    i32::try_from(done).map_err(io::Error::other)
}

fn raw(fd: &impl AsRawFd) -> io::Result<u32> {
    u32::try_from(fd.as_raw_fd()).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command};

    use super::*;

    #[test]
    fn rules_become_checks() {
        let rule = Rule::parse("c 1:3 rw").expect("a rule");
        assert_eq!(rule, Rule { kind: Some(2), major: Some(1), minor: Some(3), access: 6 });
        let program = rule.instructions();
        let offsets: Vec<_> = program.iter().map(|one| one.offset).collect();
        assert_eq!(offsets, [7, 6, 5, 0, 0, 2, 0, 0]); // each jumps past the rule
        assert_eq!((program[5].code, program[5].registers), (0x5d, 0x31));
        for wrong in ["", "c 1:3", "x 1:3 r", "c 1 r", "c 1:-3 r", "c 1:3 q", "c 1:3 r w"] {
            assert!(Rule::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn everything_is_one_answer() {
        let rules = ["c 1:3 r", "a"].map(|rule| Rule::parse(rule).expect("a rule"));
        assert_eq!(program(&rules).expect("a program"), return_value(1));
    }

    #[test]
    fn a_group_may_use_what_it_is_allowed() {
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        let unified = mounts.lines().find(|line| line.contains(" - cgroup2 "));
        let Some(root) = unified.and_then(|line| line.split(' ').nth(4)) else {
            eprintln!("no cgroup of version 2 is mounted: not tested");
            return;
        };
        let group = Path::new(root).join(format!("device-filter-{}", std::process::id()));
        fs::create_dir(&group).expect("a group");
        let attached = attach(&group, &["c 1:3 rw".to_owned(), "b *:* m".to_owned()]);
        let script = "echo $$ > $0/cgroup.procs; : < /dev/null && : > /dev/null && echo null; \
                      (: < /dev/zero) 2>&- && echo zero; echo end";
        let shell = Command::new("/bin/sh").args(["-c", script]).arg(&group).output();
        fs::remove_dir(&group).expect("nobody is left in the group");
        attached.expect("the kernel takes the program");
        let output = shell.expect("a shell");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "null\nend\n", "{output:?}");
    }
}
