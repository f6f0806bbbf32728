//! The description of the API, made from the table of routes.

use serde_json::{Map, Value, json};

use super::routes::{self, Route};

/// Returns the OpenAPI document.
pub fn document() -> Value {
    let mut paths = Map::new();
    for route in routes::all() {
        let path = paths.entry(route.full_path()).or_insert_with(|| json!({}));
        path[route.method] = operation(&route);
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "optloop", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas(),
        },
    })
}

fn operation(route: &Route) -> Value {
    let names = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path =
        names.map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }));
    let in_query =
        route.query.iter().map(|name| json!({ "name": name, "in": "query", "schema": { "type": "string" } }));
    let mut operation = json!({
        "summary": route.summary,
        "parameters": in_path.chain(in_query).collect::<Vec<_>>(),
        "responses": {
            "200": { "description": "OK", "content": { route.media: { "schema": schema(route.answer) } } },
            "default": {
                "description": "an error",
                "content": { "application/json": { "schema": reference("Error") } },
            },
        },
    });
    if let Some(scope) = route.scope {
        operation["security"] = json!([{ "token": [scope.name()] }]);
    }
    if route.method == "post" && !route.path.contains('{') {
        operation["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": reference("Submit") } } });
        let key = json!({ "name": "Idempotency-Key", "in": "header", "schema": { "type": "string" } });
        operation["parameters"] = json!([key]);
        operation["responses"]["201"] =
            json!({ "description": "Created", "content": { route.media: { "schema": schema(route.answer) } } });
    }
    operation
}

fn schema(answer: &str) -> Value {
    match answer.strip_suffix("[]") {
        _ if answer.is_empty() => json!({}),
        Some(name) => json!({ "type": "array", "items": reference(name) }),
        None => reference(answer),
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn schemas() -> Value {
    let text = json!({ "type": "string" });
    let optional = |kind: &str| json!({ "type": [kind, "null"] });
    let texts = json!({ "type": "array", "items": { "type": "string" } });
    let object = |properties: Value| json!({ "type": "object", "properties": properties });
    let request = object(json!({
        "workload": optional("string"), "cases": texts, "families": texts, "budget": optional("string"),
        "max_cost_usd": optional("number"), "max_iterations": optional("integer"), "proposer": optional("string"),
        "device": optional("string"), "commit_to": optional("string"), "no_commit": { "type": "boolean" },
        "no_stop": { "type": "boolean" }, "seed": optional("integer"),
    }));
    let states = json!({ "type": "string", "enum": ["queued", "running", "ended", "cancelled", "failed"] });
    json!({
        "Error": object(json!({ "error": text, "hint": optional("string") })),
        "Project": object(json!({
            "name": text, "folder": text, "workloads": texts, "problem": optional("string"),
        })),
        "Request": request,
        "Submit": {
            "type": "object",
            "required": ["project"],
            "properties": { "project": text, "priority": { "type": "integer" }, "request": reference("Request") },
        },
        "Submission": object(json!({
            "id": { "type": "integer" }, "project": text, "project_name": optional("string"),
            "request": reference("Request"), "device": text, "priority": { "type": "integer" }, "client": text,
            "state": states, "asked": { "enum": ["stop", "cancel", null] }, "lane": optional("string"),
            "session": optional("integer"), "attempts": { "type": "integer" }, "iterations": { "type": "integer" },
            "reason": optional("string"), "submitted_at": text, "started_at": optional("string"),
            "ended_at": optional("string"), "ahead": { "type": "integer" },
        })),
        "Diff": object(json!({ "against": optional("integer"), "cases": texts, "diff": text })),
        "Session": { "type": "object", "description": "a row of `optloop sessions --json`" },
        "Worker": { "type": "object", "description": "a row of `optloop workers --json`" },
        "Iteration": { "type": "object", "description": "a row of `optloop history --json`" },
    })
}
