// Checks every state machine below the given directories with asl-validator.
//
//   NODE_PATH=... node tools/asl/check.js . [another copy of the repository ...]
//
// Prints a line for each problem, and fails if there is one.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const validate = require("asl-validator");

const FOLDERS = ["templates", "examples"];

/** The definitions below `root`: pairs of a place and its text. */
function definitions(root) {
  return FOLDERS.map((folder) => path.join(root, folder))
    .filter((folder) => fs.existsSync(folder))
    .flatMap((folder) =>
      fs
        .readdirSync(folder, { recursive: true })
        .filter((name) => name.endsWith(".asl.json"))
        .sort()
        .map((name) => path.join(folder, name)),
    )
    .map((file) => [file, fs.readFileSync(file, "utf8")]);
}

/** Substituted as by CloudFormation: an ARN for a function, a partition, a name for anything else. */
function substituted(text) {
  return text.replace(/\$\{(\w+)\}/g, (_, name) => {
    if (name === "Partition") return "aws";
    return name.endsWith("Function") ? `arn:aws:lambda:us-east-1:123456789012:function:${name}` : name;
  });
}

function problems(text) {
  let definition;
  try {
    definition = JSON.parse(substituted(text));
  } catch (error) {
    return [`not JSON: ${error.message}`];
  }
  return validate(definition).errors.map((error) => `${error["Error code"]}: ${error.Message}`);
}

let valid = 0;
let bad = false;
function complain(place, problem) {
  console.log(`${place}: ${problem.replaceAll("\n", " ")}`);
  bad = true;
}

for (const root of process.argv.slice(2)) {
  const all = definitions(root);
  if (all.length === 0) complain(root, "there is no state machine here");
  for (const [place, text] of all) {
    const found = problems(text);
    found.forEach((problem) => complain(place, problem));
    if (found.length === 0) valid += 1;
  }
}
if (bad || valid === 0) {
  process.exitCode = 1;
} else {
  console.log(`asl-validator: ${valid} state machines are valid`);
}
