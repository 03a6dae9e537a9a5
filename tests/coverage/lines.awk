# Counts lines that ran, from lcov records: CRATE, covered, all, percent; and lists those that did not.
# A file counts up to its tests. A line that is in several executables ran if it ran in one.

function crate_of(path) {
  if (path !~ /^crates\/[^\/]+\/src\//) return ""
  if (path ~ /\/tests?(ing)?(\/|\.rs$)/) return ""
  if (path ~ /^crates\/api\/src\/[a-z]+\//) return ""
  split(path, parts, "/")
  return parts[2] == "macros" || parts[2] == "testkit" ? "" : parts[2]
}

# The first line of what is compiled for tests only, at the end of a file.
function end_of(file,    line, at, found) {
  found = 0
  while ((getline line < file) > 0) {
    at++
    if (line ~ /^#\[cfg\(test\)\]/ || line ~ /^#\[(tokio::)?test/) { if (!found) found = at }
    else if (found && at == found + 1 && line ~ /^mod [a-z_]+;/) found = 0
  }
  close(file)
  return found ? found : 1e9
}

/^SF:/ {
  file = substr($0, 4)
  path = index(file, root) == 1 ? substr(file, length(root) + 1) : file
  crate = crate_of(path)
  if (crate != "" && !(path in last)) { last[path] = end_of(file); crates[path] = crate }
}

/^DA:/ && crate != "" {
  split(substr($0, 4), at, ",")
  if (at[1] + 0 < last[path]) {
    key = path SUBSEP at[1]
    if (!(key in ran)) { ran[key] = 0; order[path] = order[path] " " at[1] }
    if (at[2] + 0 > 0) ran[key] = 1
  }
}

END {
  for (path in order) {
    n = split(order[path], lines, " ")
    missing = ""
    for (i = 1; i <= n; i++) {
      all[crates[path]]++
      if (ran[path, lines[i]]) covered[crates[path]]++
      else missing = missing " " lines[i]
    }
    if (missing != "") print path ":" missing | ("sort >" uncovered)
  }
  for (crate in all) {
    printf "%s\t%d\t%d\t%.1f\n", crate, covered[crate], all[crate], 100 * covered[crate] / all[crate]
    sum += all[crate]; ran_sum += covered[crate]
  }
  if (sum) printf "workspace\t%d\t%d\t%.1f\n", ran_sum, sum, 100 * ran_sum / sum
}
