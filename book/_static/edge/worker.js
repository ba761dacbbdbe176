// Python in a thread of its own, so that the page can be used meanwhile. It is asked {id, question} and answers
// {id, answer} or {id, error}; while it starts it tells {step}, and then {ready: true} or {failed: why}.
const PYODIDE = new URL("../pyodide/", self.location.href).href;

async function fetched(url) {
  const reply = await fetch(url);
  if (!reply.ok) throw new Error(`${url} answered ${reply.status}`);
  return new Uint8Array(await reply.arrayBuffer());
}

async function start() {
  self.postMessage({ step: "Fetching and starting Python" });
  self.importScripts(`${PYODIDE}pyodide.js`);
  const pyodide = await self.loadPyodide({ indexURL: PYODIDE });
  self.postMessage({ step: "Fetching NumPy" });
  await pyodide.loadPackage("numpy");
  self.postMessage({ step: "Reading the interpreter" });
  pyodide._module.FS.writeFile("/interpreter.zip", await fetched(`${PYODIDE}interpreter.zip`));
  pyodide.runPython("import sys; sys.path.insert(0, '/interpreter.zip'); import session");
  return pyodide.runPython("session.answer");
}

// The last line of a traceback is what was raised.
const reason = (error) => String(error.message || error).trim().split("\n").pop();

const starting = start();
starting.then(() => self.postMessage({ ready: true }), (error) => self.postMessage({ failed: reason(error) }));
self.onmessage = async ({ data: { id, question } }) => {
  try {
    const answer = await starting;
    self.postMessage({ id, answer: JSON.parse(answer(JSON.stringify(question))) });
  } catch (error) {
    self.postMessage({ id, error: reason(error) });
  }
};
