//! System call filters: compiled from profiles once, loaded from bytes later.

use std::{collections::BTreeMap, io};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

pub use crate::syscall::{names, number};

/// What happens to a call.
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

/// One condition on an argument.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    pub argument: u8,
    pub compare: Compare,
    pub value: u64,
}

/// `action` for the calls `numbers` when all `conditions` hold.
#[derive(Clone, Debug)]
pub struct Rule {
    pub numbers: Vec<i64>,
    pub conditions: Vec<Condition>,
    pub action: Action,
}

type Calls = BTreeMap<i64, Vec<SeccompRule>>;

/// Compiles a profile to programs for `load`, in loading order.
///
/// A program has one action beside its default, so each further action is a program of its own; of
/// several, the kernel obeys the strictest.
pub fn compile(default: Action, rules: &[Rule]) -> io::Result<Vec<Vec<u64>>> {
    let mut actions: Vec<Action> =
        rules.iter().map(|rule| rule.action).filter(|action| *action != default).collect();
    actions.sort_unstable();
    actions.dedup();
    let mut programs = Vec::new();
    if default != Action::Allow {
        // Whatever any rule speaks of passes here; the programs below judge it.
        let calls = calls(rules.iter().filter(|rule| rule.action != default))?;
        programs.push(program(calls, default, Action::Allow)?);
    }
    for action in actions.into_iter().filter(|action| *action != Action::Allow) {
        let calls = calls(rules.iter().filter(|rule| rule.action == action))?;
        programs.push(program(calls, Action::Allow, action)?);
    }
    Ok(programs)
}

/// Applies compiled programs to this process, for good.
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

fn calls<'a>(rules: impl Iterator<Item = &'a Rule>) -> io::Result<Calls> {
    let mut calls = Calls::new();
    let mut always = Vec::new();
    for rule in rules {
        let conditions = rule.conditions.iter().map(condition).collect::<io::Result<Vec<_>>>()?;
        for &number in &rule.numbers {
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

fn program(calls: Calls, default: Action, matched: Action) -> io::Result<Vec<u64>> {
    let arch = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let filter = SeccompFilter::new(calls, action(default), action(matched), arch)
        .map_err(io::Error::other)?;
    let program: BpfProgram = filter.try_into().map_err(io::Error::other)?;
    let word = |one: &seccompiler::sock_filter| {
        let code = one.code.to_ne_bytes();
        let k = one.k.to_ne_bytes();
        u64::from_ne_bytes([code[0], code[1], one.jt, one.jf, k[0], k[1], k[2], k[3]])
    };
    Ok(program.iter().map(word).collect())
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
            numbers: vec![number(name).expect("known")],
            conditions: Vec::new(),
            action,
        };
        let rules = [rule("read", Action::Allow), rule("clone3", Action::Errno(38))];
        assert_eq!(compile(Action::Errno(1), &rules).expect("compiled").len(), 2);
        assert_eq!(compile(Action::Allow, &rules).expect("compiled").len(), 1);
        assert_eq!(compile(Action::Allow, &[]).expect("compiled").len(), 0);
    }
}
