//! Seccomp filters: compiled from profiles once, loaded from bytes later.

use std::{collections::BTreeMap, io};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use crate::seccomp_exemption::Exemption;
pub use crate::syscall::{names, number};

/// What happens to a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    Allow,
    Errno(u32),
    Log,
    Trace(u32),
    Trap,
    KillThread,
    KillProcess,
}

/// How an argument is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// Equal after `& mask`.
    Masked(u64),
}

/// A condition on one argument.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    pub argument: u8,
    pub compare: Compare,
    pub value: u64,
}

/// Applies `action` to `syscalls` when all `conditions` hold.
#[derive(Clone, Debug)]
pub struct Rule {
    pub syscalls: Vec<i64>,
    pub conditions: Vec<Condition>,
    pub action: Action,
}

type RulesBySyscall = BTreeMap<i64, Vec<SeccompRule>>;

/// Compiles a profile to programs for `load`, in loading order.
///
/// A program has one action beside its default, so each further action needs a program of its own; of several results,
/// the kernel applies the strictest.
///
/// System calls that are newer than all that the profile mentions fail with `ENOSYS`, unless the default allows them: C
/// libraries try new calls and fall back to old ones, but treat `EPERM` as the result.
pub fn compile(default: Action, rules: &[Rule]) -> io::Result<Vec<Vec<u64>>> {
    let mut actions: Vec<Action> =
        rules.iter().map(|rule| rule.action).filter(|action| *action != default).collect();
    actions.sort_unstable();
    actions.dedup();
    let newest = match default {
        Action::Allow | Action::Log | Action::Trace(_) => None,
        _ => rules.iter().flat_map(|rule| &rule.syscalls).max(),
    };
    let newest = newest.and_then(|number| u32::try_from(*number).ok()).unwrap_or(LAST);
    let mut programs = Vec::new();
    if default != Action::Allow {
        // System calls that any rule mentions pass here; the programs below handle them.
        let calls = calls(rules.iter().filter(|rule| rule.action != default))?;
        programs.push(program(calls, default, Action::Allow, newest)?);
    }
    for action in actions.into_iter().filter(|action| *action != Action::Allow) {
        let calls = calls(rules.iter().filter(|rule| rule.action == action))?;
        programs.push(program(calls, Action::Allow, action, newest)?);
    }
    Ok(programs)
}

/// The programs, each preceded by the exemption. They are built before the first one is loaded, because afterwards even
/// allocating memory may be forbidden.
pub fn with_exemption(programs: &[Vec<u64>], exemption: &Exemption) -> io::Result<Vec<Vec<u64>>> {
    let program = |program: &Vec<u64>| {
        let all = [&exemption.program()[..], &program[..]].concat();
        if all.len() > LONGEST {
            return Err(io::Error::other("the profile is too long"));
        }
        Ok(all)
    };
    programs.iter().map(program).collect()
}

/// Loads compiled programs into this process, permanently.
pub fn load(programs: &[Vec<u64>]) -> io::Result<()> {
    for program in programs {
        let filter = libc::sock_fprog {
            len: u16::try_from(program.len()).map_err(io::Error::other)?,
            filter: program.as_ptr().cast_mut().cast(),
        };
        // SAFETY: a `sock_filter` is eight bytes, and `program` holds that many of them; the kernel copies
        // and verifies the program.
        let done = unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const filter)
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

fn calls<'a>(rules: impl Iterator<Item = &'a Rule>) -> io::Result<RulesBySyscall> {
    let mut calls = RulesBySyscall::new();
    let mut always = Vec::new();
    for rule in rules {
        let conditions = rule.conditions.iter().map(condition).collect::<io::Result<Vec<_>>>()?;
        for &number in &rule.syscalls {
            let list = calls.entry(number).or_default();
            if conditions.is_empty() {
                always.push(number);
            } else {
                list.push(SeccompRule::new(conditions.clone()).map_err(io::Error::other)?);
            }
        }
    }
    for number in always {
        calls.insert(number, Vec::new()); // an empty list matches always
    }
    Ok(calls)
}

fn condition(from: &Condition) -> io::Result<SeccompCondition> {
    let (compare, value) = match from.compare {
        Compare::Equal => (SeccompCmpOp::Eq, from.value),
        Compare::NotEqual => (SeccompCmpOp::Ne, from.value),
        Compare::Less => (SeccompCmpOp::Lt, from.value),
        Compare::LessOrEqual => (SeccompCmpOp::Le, from.value),
        Compare::Greater => (SeccompCmpOp::Gt, from.value),
        Compare::GreaterOrEqual => (SeccompCmpOp::Ge, from.value),
        Compare::Masked(mask) => (SeccompCmpOp::MaskedEq(mask), from.value),
    };
    SeccompCondition::new(from.argument, SeccompCmpArgLen::Qword, compare, value)
        .map_err(io::Error::other)
}

/// Higher numbers belong to the x32 ABI, which profiles do not cover.
const LAST: u32 = 0x3fff_ffff;

/// AUDIT_ARCH of this architecture.
pub(crate) const MACHINE: u32 =
    if cfg!(target_arch = "aarch64") { 0xc000_00b7 } else { 0xc000_003e };

/// Offsets in `struct seccomp_data`.
pub(crate) const NUMBER: u32 = 0;
pub(crate) const ARCHITECTURE: u32 = 4;
/// BPF instructions, and return values.
pub(crate) const LOAD: u16 = 0x20;
pub(crate) const JUMP_IF_EQUAL: u16 = 0x15;
pub(crate) const RETURN: u16 = 0x06;
pub(crate) const SECCOMP_RET_ALLOW: u32 = 0x7fff_0000;
/// Maximum number of instructions that the kernel accepts.
const LONGEST: usize = 4096;

/// The beginning of a program: native system calls with a number above `newest` fail with ENOSYS.
fn unknown_calls(newest: u32) -> [u64; 5] {
    const JUMP_IF_GREATER: u16 = 0x25;
    const SECCOMP_RET_ERRNO: u32 = 0x0005_0000;
    const ENOSYS: u32 = 38;
    [
        word(LOAD, 0, 0, ARCHITECTURE),
        word(JUMP_IF_EQUAL, 0, 3, MACHINE),
        word(LOAD, 0, 0, NUMBER),
        word(JUMP_IF_GREATER, 0, 1, newest),
        word(RETURN, 0, 0, SECCOMP_RET_ERRNO | ENOSYS),
    ]
}

/// Encodes one BPF instruction.
pub(crate) fn word(code: u16, if_true: u8, if_false: u8, value: u32) -> u64 {
    let (code, k) = (code.to_ne_bytes(), value.to_ne_bytes());
    u64::from_ne_bytes([code[0], code[1], if_true, if_false, k[0], k[1], k[2], k[3]])
}

fn program(
    calls: RulesBySyscall,
    default: Action,
    matched: Action,
    newest: u32,
) -> io::Result<Vec<u64>> {
    let arch = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let filter = SeccompFilter::new(calls, action(default), action(matched), arch)
        .map_err(io::Error::other)?;
    let program: BpfProgram = filter.try_into().map_err(io::Error::other)?;
    let judged = program.iter().map(|one| word(one.code, one.jt, one.jf, one.k));
    Ok(unknown_calls(newest).into_iter().chain(judged).collect())
}

fn action(action: Action) -> SeccompAction {
    match action {
        Action::Allow => SeccompAction::Allow,
        Action::Errno(number) => SeccompAction::Errno(number),
        Action::Log => SeccompAction::Log,
        Action::Trace(number) => SeccompAction::Trace(number),
        Action::Trap => SeccompAction::Trap,
        Action::KillThread => SeccompAction::KillThread,
        Action::KillProcess => SeccompAction::KillProcess,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_program_for_each_action() {
        let rule = |name: &str, action| Rule {
            syscalls: vec![number(name).expect("known")],
            conditions: Vec::new(),
            action,
        };
        let rules = [rule("read", Action::Allow), rule("clone3", Action::Errno(38))];
        assert_eq!(compile(Action::Errno(1), &rules).expect("compiled").len(), 2);
        assert_eq!(compile(Action::Allow, &rules).expect("compiled").len(), 1);
        assert_eq!(compile(Action::Allow, &[]).expect("compiled").len(), 0);
    }
}
