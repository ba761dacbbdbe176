// The Submit button: saves the notebook, hands it in through the server beside JupyterLab, and says what came of it.
//
// JupyterLab loads an extension as a container of webpack's module federation: an object with init(scope) and
// get(name). This is one written by hand, so that nothing has to be built; the modules it needs are JupyterLab's own.
(() => {
  'use strict';

  const NAME = '@framework-internals/submit';
  const COMMAND = 'class:submit';
  // Pixels; on a narrower screen the list of files would leave a notebook no room.
  const PHONE = 600;
  let shared = {};

  async function module(name) {
    const versions = Object.values(shared[name] ?? {});
    if (!versions.length) {
      throw new Error(`${NAME}: this JupyterLab shares no ${name}.`);
    }
    const offered = versions.find(version => version.loaded) ?? versions[0];
    return (await offered.get())();
  }

  async function extension() {
    const [{ INotebookTracker }, apputils, { ServerConnection }, { URLExt }] = await Promise.all(
      ['@jupyterlab/notebook', '@jupyterlab/apputils', '@jupyterlab/services', '@jupyterlab/coreutils'].map(module)
    );
    const { ICommandPalette, Notification, ToolbarButton, showErrorMessage } = apputils;
    const settings = ServerConnection.makeSettings();
    const under = path => URLExt.join(settings.baseUrl, 'classroom', path);

    // What is said, in the language of who reads it; the server has the catalogue.
    let words = {};
    const say = (key, values = {}) => words[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
    const pause = seconds => new Promise(resolve => setTimeout(resolve, 1000 * seconds));

    async function learnWords() {
      for (;;) {
        try {
          const response = await ServerConnection.makeRequest(under('words'), {}, settings);
          if (response.ok) {
            words = await response.json();
            return;
          }
        } catch {
          // A server that starts, or restarts, only takes longer to answer.
        }
        await pause(3);
      }
    }

    const ready = learnWords();

    async function ask(path, body) {
      const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
      let response;
      try {
        response = await ServerConnection.makeRequest(under(path), init, settings);
      } catch {
        throw new Error(say('silent'));
      }
      const answer = await response.json().catch(() => ({}));
      if (!response.ok) {
        throw new Error(answer.reason ?? answer.message ?? say('answered', { status: response.status }));
      }
      return answer;
    }

    async function settled(taken, tell) {
      let state = taken;
      let faults = 0;
      while (state.state === 'waiting' || state.state === 'leased') {
        try {
          state = await ask(`submissions/${taken.submission}`);
          faults = 0;
          tell(state.words);
        } catch (error) {
          // It is stored: a server that restarts meanwhile only takes longer to answer.
          faults += 1;
          if (faults > 20) {
            throw new Error(say('silent_later', { line: taken.line }));
          }
          await pause(3);
        }
      }
      return state;
    }

    const busy = new Set();

    async function submit(panel) {
      const context = panel.context;
      if (busy.has(context.path)) {
        return;
      }
      busy.add(context.path);
      mark(panel);
      const id = Notification.emit(say('working', { path: context.path }), 'in-progress', { autoClose: false });
      const show = (message, type, page) =>
        Notification.update({
          id,
          message,
          type,
          autoClose: false,
          actions: page ? [{ label: say('feedback'), callback: () => window.open(page, '_blank', 'noopener') }] : []
        });
      try {
        // A save that asks about a conflict is rejected where it is cancelled, and where another asks already.
        await context.save().catch(() => undefined);
        if (context.model.dirty) {
          throw new Error(say('not_saved'));
        }
        const taken = await ask('submit', { path: context.localPath ?? context.path });
        const tell = told => show(`${taken.line} ${told ?? ''}`, 'in-progress', taken.page);
        if (taken.state === 'waiting') {
          tell(taken.words);
        }
        const state = await settled(taken, tell);
        show(`${taken.line} ${state.words}`, state.state === 'graded' ? 'success' : 'warning', taken.page);
        if (state.state === 'parked') {
          void showErrorMessage(say('submit'), `${taken.line} ${state.words}`);
        }
      } catch (error) {
        // A notification shows 140 characters; why nothing was handed in may take more.
        Notification.dismiss(id);
        void showErrorMessage(say('submit'), error.message);
      } finally {
        busy.delete(context.path);
        mark(panel);
      }
    }

    const buttons = new WeakMap();

    function mark(panel) {
      const working = busy.has(panel.context.path);
      const button = buttons.get(panel);
      if (button && !button.isDisposed) {
        button.enabled = !working;
      }
    }

    const isLab = context => Boolean(context.model.getMetadata?.('autograder')?.lab);

    return {
      id: `${NAME}:plugin`,
      description: 'A Submit button in the toolbar of a lab.',
      autoStart: true,
      requires: [INotebookTracker],
      optional: [ICommandPalette],
      activate: (app, tracker, palette) => {
        const current = () => (tracker.currentWidget && isLab(tracker.currentWidget.context) ? tracker.currentWidget : null);
        void ready.then(() => {
          app.commands.addCommand(COMMAND, {
            label: () => say('command'),
            caption: () => say('tip'),
            isEnabled: () => current() !== null,
            execute: () => current() && submit(current())
          });
          palette?.addItem({ command: COMMAND, category: say('category') });
        });
        app.docRegistry.addWidgetExtension('Notebook', {
          createNew: (panel, context) => {
            void Promise.all([context.ready, ready]).then(() => {
              if (panel.isDisposed || !isLab(context)) {
                return;
              }
              const button = new ToolbarButton({
                className: 'class-submit',
                label: say('submit'),
                tooltip: say('tip'),
                onClick: () => void submit(panel)
              });
              buttons.set(panel, button);
              // Near the front: what does not fit, on a phone all but a few, goes from the end into a menu.
              if (!panel.toolbar.insertAfter('save', 'class-submit', button)) {
                panel.toolbar.insertItem(0, 'class-submit', button);
              }
              void app.restored.then(() => {
                if (window.innerWidth < PHONE) {
                  app.shell.collapseLeft?.();
                }
              });
            });
          }
        });
        // Labs that were released since the server started. A server of one's own has them all, and no such address.
        if (settings.baseUrl.includes('/user/')) {
          void ready.then(() => ask('fetch', {})).catch(() => undefined);
        }
      }
    };
  }

  window._JUPYTERLAB = window._JUPYTERLAB ?? {};
  window._JUPYTERLAB[NAME] = {
    init: scope => {
      shared = scope;
    },
    get: async name => {
      if (name !== './extension') {
        throw new Error(`${NAME} has no module ${name}.`);
      }
      const plugin = await extension();
      return () => ({ __esModule: true, default: plugin });
    }
  };
})();
