//! Parses a document into the steps that it tells its reader to do.
//!
//! - A block ```` ```console ```` has lines `$ COMMAND` and, below each, what it prints. `...` stands for
//!   any text in a line; alone in a line, for any lines. How wide a gap is does not matter. A command without
//!   output below it may print anything.
//! - `eventually` after `console`: the commands are repeated until they answer so. `fails`: the last one
//!   ends with an error. `second-machine`: on the second machine.
//! - A block ```` ```yaml file=NAME ```` is saved as NAME.

/// A step, and the line of the document where it is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) line: usize,
    pub(crate) machine: usize,
    pub(crate) action: Action,
}

/// What a step does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Save { name: String, content: String },
    Run { command: String, prints: Vec<String>, eventually: bool, fails: bool },
}

pub(crate) fn parse(text: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let mut block = Vec::new();
        loop {
            match lines.next() {
                None => return Err(format!("line {}: the block has no end", number + 1)),
                Some((_, "```")) => break,
                Some((_, line)) => block.push(line),
            }
        }
        let words: Vec<&str> = info.split_whitespace().collect();
        let machine = usize::from(words.contains(&"second-machine"));
        if words.first() == Some(&"console") {
            let commands = parse_console(number + 2, &block, &words)?;
            steps.extend(commands.into_iter().map(|(line, action)| Step { line, machine, action }));
        } else if let Some(name) = words.iter().find_map(|word| word.strip_prefix("file=")) {
            let content = block.iter().map(|line| format!("{line}\n")).collect();
            let action = Action::Save { name: name.to_owned(), content };
            steps.push(Step { line: number + 1, machine, action });
        }
    }
    Ok(steps)
}

fn parse_console(
    first: usize,
    block: &[&str],
    words: &[&str],
) -> Result<Vec<(usize, Action)>, String> {
    let known = ["console", "eventually", "fails", "second-machine"];
    if let Some(word) = words.iter().find(|word| !known.contains(word)) {
        return Err(format!("line {}: unknown word {word:?}", first - 1));
    }
    let mut found: Vec<(usize, String, Vec<String>)> = Vec::new();
    for (offset, line) in block.iter().enumerate() {
        if let Some(command) = line.strip_prefix("$ ") {
            found.push((first + offset, command.to_owned(), Vec::new()));
        } else {
            let (_, command, prints) =
                found.last_mut().ok_or_else(|| format!("line {first}: output of no command"))?;
            if command.ends_with('\\') && prints.is_empty() {
                command.push('\n');
                command.push_str(line);
            } else {
                prints.push((*line).to_owned());
            }
        }
    }
    let last = found.len().saturating_sub(1);
    let eventually = words.contains(&"eventually");
    let action = |index, command, prints| {
        let fails = index == last && words.contains(&"fails");
        Action::Run { command, prints, eventually, fails }
    };
    let found = found.into_iter().enumerate();
    Ok(found
        .map(|(index, (line, command, prints))| (line, action(index, command, prints)))
        .collect())
}

/// Whether the output matches what the document shows.
pub(crate) fn agrees(prints: &[String], output: &str) -> bool {
    let output: Vec<&str> = output.lines().map(str::trim_end).collect();
    prints.is_empty() || lines_agree(prints, &output)
}

fn lines_agree(prints: &[String], output: &[&str]) -> bool {
    match prints.split_first() {
        None => output.is_empty(),
        Some((line, rest)) if line.trim() == "..." => {
            (0..=output.len()).any(|skipped| lines_agree(rest, &output[skipped..]))
        }
        Some((line, rest)) => output
            .split_first()
            .is_some_and(|(first, others)| line_agrees(line, first) && lines_agree(rest, others)),
    }
}

fn line_agrees(shown: &str, printed: &str) -> bool {
    let one_space = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (shown, printed) = (one_space(shown), one_space(printed));
    let mut parts = shown.split("...");
    let Some(mut rest) = parts.next().and_then(|first| printed.strip_prefix(first)) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn blocks_become_steps() {
    let text = "# A\n```yaml file=a.yaml\na: 1\n```\n```console fails\n$ one \\\n  more\nyes\n$ two\n```\n";
    let steps = parse(text).unwrap();
    let save = Action::Save { name: "a.yaml".into(), content: "a: 1\n".into() };
    assert_eq!(steps[0], Step { line: 2, machine: 0, action: save });
    let run = |command: &str, prints: &[&str], fails| Action::Run {
        command: command.into(),
        prints: prints.iter().map(|line| (*line).to_owned()).collect(),
        eventually: false,
        fails,
    };
    assert_eq!(
        steps[1],
        Step { line: 6, machine: 0, action: run("one \\\n  more", &["yes"], false) }
    );
    assert_eq!(steps[2], Step { line: 9, machine: 0, action: run("two", &[], true) });
    assert!(parse("```console once\n$ a\n```\n").unwrap_err().contains("\"once\""));
    assert!(parse("```console\n$ a\n").unwrap_err().contains("no end"));
}

#[test]
fn dots_stand_for_any_text() {
    let shown = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    assert!(agrees(&shown(&["NAME   AGE", "a-...  ...s"]), "NAME  AGE\na-x1    5s\n"));
    assert!(!agrees(&shown(&["NAME   AGE", "a-...  ...s"]), "NAME  AGE\nb-x1    5s\n"));
    assert!(agrees(&shown(&["a", "...", "d"]), "a\nb\nc\nd\n"));
    assert!(!agrees(&shown(&["a", "...", "d"]), "a\nb\nc\n"));
    assert!(!agrees(&shown(&["a"]), "a\nb\n"));
    assert!(!agrees(&shown(&["abc"]), "ab\n"));
    assert!(agrees(&[], "anything\n"));
}
