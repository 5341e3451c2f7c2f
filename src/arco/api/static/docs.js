// The page behind /api/v1/docs: reads openapi.json, shows it, and lets people try it. Everything that comes
// from the document or from an answer is set as text, never as HTML. The token stays in its field.
"use strict";

const byId = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// Just enough Markdown for our own descriptions: paragraphs, lists, **bold** and `code`.
function inline(text) {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*)/).map((part) => {
    if (part.startsWith("`")) return make("code", {}, part.slice(1, -1));
    if (part.startsWith("**")) return make("strong", {}, part.slice(2, -2));
    return part;
  });
}

function prose(text) {
  return (text || "").trim().split(/\n\s*\n/).map((block) => {
    const lines = block.split("\n");
    if (!lines[0].startsWith("* ")) return make("p", {}, ...inline(lines.join(" ")));
    return make("ul", {}, ...lines.map((line) => make("li", {}, ...inline(line.replace(/^\*\s+/, "")))));
  });
}

function shapeOf(schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map(shapeOf).join(" or ");
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" | ");
  if (schema.type === "array") return schema.prefixItems ? "array" : `array of ${shapeOf(schema.items) || "anything"}`;
  if (schema.type === "object" && schema.additionalProperties) return `map to ${shapeOf(schema.additionalProperties) || "anything"}`;
  return schema.format ? `${schema.type} (${schema.format})` : schema.type || "anything";
}

function shapeNodes(schema) {
  const refs = new Set();
  (function walk(each) {
    if (!each || typeof each !== "object") return;
    if (each.$ref) refs.add(each.$ref.split("/").pop());
    Object.values(each).forEach(walk);
  })(schema);
  const nodes = [make("code", {}, shapeOf(schema))];
  for (const name of refs) nodes.push(" ", make("a", { href: `#type-${name}`, class: "note" }, "type"));
  return nodes;
}

function grid(headings, rows) {
  return make("table", {},
    make("thead", {}, make("tr", {}, ...headings.map((each) => make("th", { scope: "col" }, each)))),
    make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((cell) => make("td", {}, ...[cell].flat()))))));
}

function bounds(schema) {
  const parts = [];
  if (schema.minimum !== undefined || schema.maximum !== undefined) parts.push(`${schema.minimum ?? ""} to ${schema.maximum ?? ""}`);
  if (schema.maxLength !== undefined) parts.push(`at most ${schema.maxLength} characters`);
  if (schema.default !== undefined && schema.default !== null) parts.push(`default ${JSON.stringify(schema.default)}`);
  return parts.length ? make("span", { class: "note" }, ` ${parts.join(", ")}`) : null;
}

function parameters(operation) {
  if (!operation.parameters.length) return [];
  const rows = operation.parameters.map((each) => [
    make("code", {}, each.name),
    each.in + (each.required ? ", required" : ""),
    [...shapeNodes(each.schema), bounds(each.schema)].filter(Boolean),
    inline(each.description || ""),
  ]);
  return [make("h3", {}, "Parameters"), grid(["Name", "In", "Type", "What"], rows)];
}

function requestBody(operation) {
  if (!operation.requestBody) return [];
  const media = operation.requestBody.content["application/json"];
  return [
    make("h3", {}, "Body"),
    make("p", {}, ...shapeNodes(media.schema)),
    make("pre", { tabindex: "0" }, JSON.stringify(media.example, null, 2)),
  ];
}

function responses(operation) {
  const rows = Object.entries(operation.responses).map(([status, answer]) => [
    make("code", {}, status),
    answer.description,
    Object.entries(answer.content || {}).flatMap(([kind, media]) => [make("div", {}, make("span", { class: "note" }, `${kind} `), ...shapeNodes(media.schema))]),
  ]);
  return [make("h3", {}, "Answers"), grid(["Status", "What", "Body"], rows)];
}

function control(parameter) {
  const schema = parameter.schema;
  if (schema.type === "boolean" || schema.enum) {
    const values = schema.enum || ["true", "false"];
    return make("select", {}, make("option", { value: "" }, ""), ...values.map((each) => make("option", {}, String(each))));
  }
  const type = schema.type === "integer" ? "number" : "text";
  const field = make("input", { type, autocomplete: "off", spellcheck: "false", required: parameter.required });
  if (parameter.in === "path") field.value = String(parameter.example ?? "").replaceAll("\u001f", ".");
  return field;
}

// People type the levels of a schema with dots between them; a URL has them joined by 0x1F.
function spelled(parameter, text) {
  const joined = parameter.name === "schema" || parameter.name === "parent";
  return encodeURIComponent(joined ? text.replaceAll(".", "\u001f") : text);
}

function tryIt(path, method, operation) {
  const fields = operation.parameters.map((parameter) => ({ parameter, field: control(parameter) }));
  const media = operation.requestBody?.content["application/json"];
  const body = media ? make("textarea", { spellcheck: "false", "aria-label": "Body" }) : null;
  if (body) body.value = JSON.stringify(media.example, null, 2);
  const button = make("button", { type: "submit" }, `Send ${method.toUpperCase()}`);
  const result = make("div", { role: "status", "aria-live": "polite" });
  const form = make("form", { class: "try" },
    ...fields.map(({ parameter, field }) => make("label", {}, make("span", {}, parameter.name), field)),
    body, button, result);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    result.replaceChildren(make("p", { class: "note" }, "…"));
    try {
      result.replaceChildren(...(await send(path, method, fields, body)));
    } catch (problem) {
      result.replaceChildren(make("p", { class: "status bad" }, `No answer: ${problem.message}`));
    }
    button.disabled = false;
  });
  return [make("h3", {}, "Try it"), form];
}

async function send(path, method, fields, body) {
  const headers = {};
  const query = [];
  for (const { parameter, field } of fields) {
    if (field.value === "") continue;
    if (parameter.in === "path") path = path.replace(`{${parameter.name}}`, spelled(parameter, field.value));
    if (parameter.in === "query") query.push(`${parameter.name}=${spelled(parameter, field.value)}`);
    if (parameter.in === "header") headers[parameter.name] = field.value;
  }
  if (body) headers["Content-Type"] = "application/json";
  const token = byId("token").value.trim();
  if (token) headers.Authorization = `Bearer ${token}`;
  const url = query.length ? `${path}?${query.join("&")}` : path;
  const began = performance.now();
  const answer = await fetch(url, {
    method: method.toUpperCase(), headers, body: body ? body.value : undefined, credentials: "omit", cache: "no-store",
  });
  const text = await answer.text();
  const took = Math.round(performance.now() - began);
  const shown = ["etag", "location", "retry-after", "x-request-id"].filter((each) => answer.headers.has(each));
  return [
    make("p", {}, make("span", { class: answer.ok ? "status" : "status bad" }, `${answer.status} `),
      make("span", { class: "note" }, `${method.toUpperCase()} ${url}, ${took} ms`)),
    shown.length ? make("pre", { tabindex: "0" }, shown.map((each) => `${each}: ${answer.headers.get(each)}`).join("\n")) : "",
    text ? make("pre", { tabindex: "0" }, pretty(text)) : make("p", { class: "note" }, "no body"),
  ];
}

function pretty(text) {
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}

function entry(path, method, operation) {
  const details = make("details", { class: "operation", id: operation.operationId },
    make("summary", {}, make("span", { class: `method ${method}` }, method.toUpperCase()),
      make("span", { class: "path" }, path), make("span", { class: "summary" }, operation.summary)));
  // Filled in when it is opened first: a hundred forms at once would be slow to show.
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) {
      details.append(make("div", { class: "body" }, ...parameters(operation), ...requestBody(operation),
        ...responses(operation), ...tryIt(path, method, operation)));
    }
  });
  details.dataset.words = `${method} ${path} ${operation.summary} ${operation.operationId}`.toLowerCase();
  return details;
}

function operationsByTag(spec) {
  const groups = new Map(spec.tags.map((tag) => [tag.name, []]));
  for (const [path, methods] of Object.entries(spec.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      if (method !== "head") groups.get(operation.tags[0]).push([path, method, operation]);
    }
  }
  return groups;
}

function typeEntry(name, schema) {
  const required = new Set(schema.required || []);
  const rows = Object.entries(schema.properties || {}).map(([field, inner]) => [
    [make("code", {}, field), required.has(field) ? "" : make("span", { class: "note" }, " optional")],
    [...shapeNodes(inner), bounds(inner)].filter(Boolean),
    inline(inner.description || ""),
  ]);
  return make("details", { class: "operation", id: `type-${name}` },
    make("summary", {}, make("code", {}, name), make("span", { class: "summary" }, (schema.description || "").split("\n")[0])),
    make("div", { class: "body" }, ...prose(schema.description), rows.length ? grid(["Field", "Type", "What"], rows) : make("p", {}, make("code", {}, shapeOf(schema)))));
}

function show(spec) {
  byId("version").textContent = spec.info.version;
  byId("about").append(...prose(spec.info.description));
  for (const [tag, entries] of operationsByTag(spec)) {
    byId("operations").append(make("h2", {}, tag), ...entries.map((each) => entry(...each)));
    byId("contents").append(make("h2", {}, tag), make("ul", {}, ...entries.map(([, method, operation]) =>
      make("li", { "data-for": operation.operationId }, make("a", { href: `#${operation.operationId}` },
        make("span", { class: `method ${method}` }, `${method.toUpperCase()} `), operation.summary)))));
  }
  byId("schemas").append(make("h2", {}, "Types"), ...Object.entries(spec.components.schemas).map(([name, schema]) => typeEntry(name, schema)));
  openTarget();
}

function filter(words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  for (const details of byId("operations").querySelectorAll("details")) {
    const hidden = !wanted.every((word) => details.dataset.words.includes(word));
    details.hidden = hidden;
    byId("contents").querySelector(`[data-for="${details.id}"]`).hidden = hidden;
  }
}

function openTarget() {
  const target = location.hash && byId(decodeURIComponent(location.hash.slice(1)));
  if (target && target.tagName === "DETAILS") {
    target.open = true;
    target.scrollIntoView();
  }
}

byId("filter").addEventListener("input", (event) => filter(event.target.value));
window.addEventListener("hashchange", openTarget);
fetch("openapi.json").then((answer) => answer.json()).then(show).catch((problem) => {
  byId("trouble").textContent = `openapi.json could not be read: ${problem.message}`;
});
