//! Tests of the formats, of bad input, and of the space that proposers search.

use std::io::Write as _;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::{Value, json};

use super::*;
use crate::domain::space::Space;
use crate::error::Error;
use crate::store::testing::{Scene, finish, proposal, wrong};

/// A cache of two parameters with four configurations, one of which fails. `(32, "b")` violates a constraint.
fn cache() -> Value {
    let time = |ms: f64| json!({ "time": ms, "times": [ms, ms * 1.5] });
    let entry = |x: i64, layout: &str, more: Value| {
        let mut entry = more;
        (entry["X"], entry["LAYOUT"]) = (json!(x), json!(layout));
        entry
    };
    json!({
        "device_name": "GPU\u{1b}[31m",
        "kernel_name": "k",
        "tune_params_keys": ["X", "LAYOUT"],
        "tune_params": { "X": [32, 8, 16], "LAYOUT": ["b", "a"] },
        "cache": {
            "8,b": entry(8, "b", time(4.0)),
            "8,a": entry(8, "a", time(2.0)),
            "16,b": entry(16, "b", json!({ "time": "RuntimeFailedConfig" })),
            "32,a": entry(32, "a", time(1.0)),
        }
    })
}

fn parsed(document: &Value) -> Result<RecordedSpace, Error> {
    parse("made-up", document.to_string().as_bytes())
}

fn searchable() -> Searchable {
    Searchable::new(parsed(&cache()).unwrap()).unwrap()
}

#[test]
fn a_cache_is_read_with_texts_as_positions_and_integers_in_order() {
    let space = parsed(&cache()).unwrap();
    assert_eq!(space.device.as_deref(), Some("GPU[31m"), "control characters do not reach a terminal");
    assert_eq!(space.parameters[0].numbers(), [8, 16, 32]);
    assert_eq!(space.parameters[1].numbers(), [0, 1]);
    assert_eq!(space.sorted_times_ns(), [1e6, 2e6, 4e6]);
    assert_eq!(space.configurations[0].result, Err(Failure::Runtime));
    let fastest = space.configurations[1].result.as_ref().unwrap();
    assert_eq!(fastest.samples_ns, [1e6, 1.5e6]);
}

#[test]
fn the_time_of_an_evaluation_is_what_compiling_checking_and_timing_took() {
    let costs = |space: &RecordedSpace| space.configurations.iter().map(|one| one.cost_s).collect::<Vec<_>>();
    let mut document = cache();
    assert_eq!(costs(&parsed(&document).unwrap()), [None; 4]);
    let (compile, benchmark) = (json!(1500.0), json!(500));
    (document["cache"]["8,b"]["compile_time"], document["cache"]["8,b"]["benchmark_time"]) = (compile, benchmark);
    // The search was another one then, so its time does not count.
    document["cache"]["8,b"]["strategy_time"] = json!(1e9);
    document["cache"]["16,b"]["compile_time"] = json!(2000.0);
    // They have the order of the file, which is that of the keys.
    assert_eq!(costs(&parsed(&document).unwrap()), [Some(2.0), None, None, Some(2.0)]);
    document["cache"]["8,b"]["benchmark_time"] = json!(-5000.0);
    insta::assert_snapshot!(parsed(&document).unwrap_err(), @"configuration 4: the time that its evaluation took is not a positive number");

    let times = json!({ "compilation_time": 2.0, "validation": 1.0, "runtimes": [0.5, 0.5], "search_algorithm": 9.0 });
    let result = |times: Value, invalidity: &str| {
        let time = json!({ "name": "time", "value": 0.5 });
        json!({ "configuration": { "X": invalidity }, "times": times, "invalidity": invalidity, "measurements": [time] })
    };
    let results = [result(times, "correct"), result(json!({ "compilation_time": 3.0 }), "runtime")];
    let document = json!({ "metadata": { "timeunit": "seconds" }, "results": results });
    assert_eq!(costs(&parsed(&document).unwrap()), [Some(4.0), Some(3.0)]);
}

#[test]
fn both_formats_give_an_exported_space_back() {
    let space = parsed(&cache()).unwrap();
    for format in [Format::KernelTuner, Format::T4] {
        let again = parse("made-up", write(&space, format).as_bytes()).unwrap();
        // T4 lists no values, so texts get the order of the results. It is the same here.
        assert_eq!(again, space);
    }
}

#[test]
fn a_compressed_file_is_read_and_damaged_ones_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let problem = |name: &str, bytes: &[u8]| {
        let problem = read(&file(name, bytes)).unwrap_err();
        problem.to_string().replace(&folder.path().display().to_string(), "FOLDER")
    };
    let mut compressed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    compressed.write_all(cache().to_string().as_bytes()).unwrap();
    let compressed = compressed.finish().unwrap();
    let space = read(&file("conv__A100.json.gz", &compressed)).unwrap();
    assert_eq!(space, RecordedSpace { name: "conv__A100".to_owned(), ..parsed(&cache()).unwrap() });
    insta::assert_snapshot!(problem("a.json.gz", b"{}"), @"FOLDER/a.json.gz: its name ends with .gz, but it is not compressed with gzip: rename it");
    insta::assert_snapshot!(problem("b.json.gz", &compressed[..compressed.len() / 2]), @"FOLDER/b.json.gz: it is not a valid gzip file (incomplete deflate stream): download it again");
    insta::assert_snapshot!(problem("c.json", b"\x00\xff"), @"FOLDER/c.json: it is not JSON: expected value at line 1 column 1");
    insta::assert_snapshot!(read(folder.path()).unwrap_err().to_string().replace(&folder.path().display().to_string(), "FOLDER"), @"FOLDER: it is not a file");
}

#[test]
fn every_mistake_in_a_cache_gets_a_sentence() {
    let changed = |change: fn(&mut Value)| {
        let mut document = cache();
        change(&mut document);
        parsed(&document).and_then(|space| Searchable::new(space).map(|_| ())).unwrap_err()
    };
    let text = |text: &str| parse("made-up", text.as_bytes()).unwrap_err();
    insta::assert_snapshot!(text("[]"), @"it is JSON, but not an object with `cache` (Kernel Tuner) or `results` (T4)");
    insta::assert_snapshot!(text("{}"), @"it has neither `cache` (Kernel Tuner) nor `results` (T4)");
    insta::assert_snapshot!(text("{ \"cache\": {"), @"its JSON ends too early, at line 1, column 12: a cache of an unfinished run lacks the last `}}`");
    insta::assert_snapshot!(text("{ \"ConfigurationSpace\": {} }"), @"it is a T1 file, which defines a space without times: name a file with results (T4)");
    insta::assert_snapshot!(changed(|cache| drop(cache.as_object_mut().unwrap().remove("tune_params"))), @"as a Kernel Tuner cache, missing field `tune_params` at line 1 column 321");
    insta::assert_snapshot!(changed(|cache| cache["tune_params"]["X"] = json!([8, 16])), @"configuration 2: 32 is not a value of `X`");
    insta::assert_snapshot!(changed(|cache| cache["tune_params"]["X"] = json!([8, 16, [32]])), @"parameter `X`: a list is neither a number nor a text nor a truth value");
    insta::assert_snapshot!(changed(|cache| cache["tune_params_keys"] = json!(["X"])), @"configuration 4 occurs twice: remove one");
    insta::assert_snapshot!(changed(|cache| cache["tune_params_keys"] = json!([])), @"it has 0 parameters: 1 to 64 are supported");
    insta::assert_snapshot!(changed(|cache| cache["cache"] = json!({})), @"it has 0 configurations: 1 to 1000000 are supported");
    insta::assert_snapshot!(changed(|cache| cache["cache"] = json!({ "16,b": cache["cache"]["16,b"] })), @"no configuration has a time: record at least one that works");
    insta::assert_snapshot!(changed(|cache| cache["cache"]["8,a"]["time"] = json!(-1)), @"configuration 3: a time is not a positive number");
    insta::assert_snapshot!(changed(|cache| cache["cache"]["8,a"]["time"] = json!(null)), @"configuration `8,a`: `time` is neither a number nor the name of a failure");
    insta::assert_snapshot!(changed(|cache| cache["cache"]["8,a"]["times"] = json!("fast")), @"configuration `8,a`: `times` is not a list of numbers");
    insta::assert_snapshot!(changed(|cache| drop(cache["cache"]["8,a"].as_object_mut().unwrap().remove("X"))), @"configuration `8,a`: `X` is missing");
    insta::assert_snapshot!(renamed("sm"), @"`sm` is a reserved name: rename your value");
    insta::assert_snapshot!(renamed("a b"), @"`a b`: use 1 to 64 letters, digits and `_`, because it is used in the source");
}

/// Renames the parameter `X` everywhere.
fn renamed(name: &str) -> String {
    let text = cache().to_string().replace("\"X\"", &json!(name).to_string());
    Searchable::new(parse("made-up", text.as_bytes()).unwrap()).map(|_| ()).unwrap_err().into()
}

#[test]
fn every_mistake_in_t4_results_gets_a_sentence() {
    let changed = |change: fn(&mut Value)| {
        let mut document = serde_json::from_str(&write(&parsed(&cache()).unwrap(), Format::T4)).unwrap();
        change(&mut document);
        parsed(&document).unwrap_err()
    };
    insta::assert_snapshot!(changed(|results| results["metadata"]["timeunit"] = json!("fortnights")), @"the unit of time `fortnights` is not known: use seconds, milliseconds or microseconds");
    insta::assert_snapshot!(changed(|results| results["results"] = json!([])), @"`results` is empty");
    insta::assert_snapshot!(changed(|results| results["results"][0]["invalidity"] = json!("luck")), @"result 1: the invalidity `luck` is not known");
    insta::assert_snapshot!(changed(|results| results["results"][1]["measurements"] = json!([])), @"result 2: `measurements` has no `time`, the only objective that can be replayed");
    insta::assert_snapshot!(changed(|results| results["results"][1]["configuration"]["Y"] = json!(1)), @"result 2: the first result has no parameter `Y`");
    insta::assert_snapshot!(changed(|results| results["results"][1] = results["results"][0].clone()), @"configuration 2 occurs twice: remove one");
    insta::assert_snapshot!(changed(|results| results["results"][0] = json!({})), @"as T4 results, missing field `configuration` at line 1 column 95");
}

#[test]
fn a_t4_configuration_that_violates_a_constraint_is_not_in_the_space() {
    let mut results: Value = serde_json::from_str(&write(&parsed(&cache()).unwrap(), Format::T4)).unwrap();
    results["results"][0]["invalidity"] = json!("constraints");
    assert_eq!(parsed(&results).unwrap().configurations.len(), 3);
}

#[test]
fn only_recorded_configurations_are_valid_and_all_of_them_are_drawn() {
    let searched = searchable();
    let space = Space {
        family: searched.family(),
        case: searched.case(),
        dtype: searched.workload.dtype,
        device: &searched.device,
    };
    let params = |x: i64, layout: i64| searched.family().configuration(&[x, layout]);
    assert!(space.contains(&params(16, 0)).unwrap(), "a failure is part of the space");
    assert!(!space.contains(&params(32, 0)).unwrap(), "a violated constraint is not");
    let mut rng = SmallRng::seed_from_u64(1);
    let mut drawn: Vec<_> = (0..100).map(|_| space.random(&mut rng).unwrap().unwrap()).collect();
    drawn.sort_by_key(|params| params.values().copied().collect::<Vec<_>>());
    drawn.dedup();
    assert_eq!(drawn, [params(8, 0), params(8, 1), params(16, 0), params(32, 1)]);
    // One is left, and the draw finds it.
    let left = |other: &_| *other == params(32, 1);
    assert_eq!(space.random_where(&mut rng, left).unwrap(), Some(params(32, 1)));
    assert_eq!(space.random_where(&mut rng, |_| false).unwrap(), None);
    assert_eq!(space.start().unwrap(), Some(params(16, 0)), "the middle of the ranges");
    let neighbours: Vec<_> = space.neighbours(&params(8, 0)).unwrap().into_iter().map(|(_, params)| params).collect();
    assert_eq!(neighbours, [params(16, 0), params(8, 1)]);
    assert_eq!(searched.result(&params(16, 0)), Some(Err(Failure::Runtime)));
    assert_eq!([&searched.workload.name, &searched.family().name], ["made-up"; 2]);
    assert_eq!(searched.result(&params(8, 1)).unwrap().unwrap().time_ns, 2e6);
    assert_eq!(searched.result(&params(32, 0)), None);
}

#[tokio::test]
async fn a_session_is_exported_with_its_best_knowledge_of_each_configuration() {
    use crate::domain::measurement::verdict::Verdict;
    let scene = Scene::new().await;
    let session = scene.session().await;
    // 64 threads are confirmed and then screened again. 128 are screened twice. 256 are wrong.
    let first = scene.measured(session, 64, None, 90_000.0, Verdict::Improved).await;
    scene.measured(session, 64, Some(first), 99_000.0, Verdict::Tied).await;
    scene.measured(session, 128, Some(first), 80_000.0, Verdict::Tied).await;
    scene.measured(session, 128, Some(first), 70_000.0, Verdict::Tied).await;
    let iteration = scene.store.begin(session, &proposal(256, None)).await.unwrap();
    let (evaluation, decisions) = wrong();
    scene.store.finish(iteration, &finish(&evaluation, &decisions)).await.unwrap();
    scene.store.begin(session, &proposal(512, None)).await.unwrap();

    let record = scene.store.session_record(session).await.unwrap();
    let space = of_session(&record, None, None).unwrap();
    assert_eq!((space.kernel.as_deref(), space.device.as_deref()), (Some("tiled"), Some("NVIDIA L4")));
    assert_eq!(space.parameters[0].numbers(), [64, 128, 256], "512 has no result");
    let time = |place: usize| space.configurations[place].result.as_ref().map(|found| found.time_ns);
    assert_eq!([time(0), time(1), time(2)], [Ok(90_000.0), Ok(71_024.0), Err(&Failure::Wrong)]);
    for format in [Format::KernelTuner, Format::T4] {
        assert_eq!(parse(&space.name, write(&space, format).as_bytes()).unwrap(), space);
    }
    insta::assert_snapshot!(of_session(&record, Some("b1h1s182"), None).unwrap_err(), @"session 1 has no case `b1h1s182` (did you mean `b1h1s128`?); it has: b1h1s128");
    insta::assert_snapshot!(of_session(&record, None, Some("tile")).unwrap_err(), @"session 1 on b1h1s128 has no family `tile` (did you mean `tiled`?); it has: tiled");
}
