// Questions to the server of this page, and to nobody else.
export class Refused extends Error {}

async function sent(name, body, signal, kind = "application/json") {
  const response = await fetch(`/api/${name}`, { method: "POST", headers: { "content-type": kind }, body, signal, credentials: "omit" });
  if (!response.ok) {
    const told = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
    throw new Refused(told.error);
  }
  return response;
}

export async function ask(name, question = {}, signal = undefined) {
  return (await sent(name, JSON.stringify(question), signal)).json();
}

export async function upload(file) {
  return (await sent(`upload?name=${encodeURIComponent(file.name)}`, file, undefined, "application/octet-stream")).json();
}

// A stream of events: `progress` is called with a text, the promise is of what is made. To abort is to cancel.
export async function stream(name, question, progress, signal) {
  const response = await sent(name, JSON.stringify(question), signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Refused("the server ended before it was done; is it still running?");
    text += value;
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      const [, kind, said] = /^event: (\w+)\ndata: ([\s\S]*)$/.exec(text.slice(0, end)) ?? [];
      text = text.slice(end + 2);
      if (kind === "progress") progress(JSON.parse(said));
      if (kind === "error") throw new Refused(JSON.parse(said));
      if (kind === "done") return JSON.parse(said);
    }
  }
}

export function save(name, kind, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: kind }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
