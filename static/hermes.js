/* Progressive enhancement only: every action also works as a plain link or form.
   Order: 1 small things  2 live updates  3 theme, palette, dialogs, toasts  4 keyboard  5 clocks */
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const root = document.documentElement;
  const TYPED = 'input:not([type=hidden]):not([type=checkbox]):not([type=radio]),select,textarea';
  const MISSES = 3, BACK_OFF_MS = 30000, IDLE_MS = 60000;
  const stored = key => { try { return localStorage.getItem(key); } catch (e) { return null; } };
  const store = (key, value) => { try { localStorage.setItem(key, value); } catch (e) { /* storage is switched off */ } };

  /* 2 live updates ------------------------------------------------------------------------------------------------ */
  let paused = false, misses = 0, lastTry = 0, heardAt = Date.now(), touchedAt = Date.now();
  const tags = new WeakMap();                    // a region's last ETag, and the address it belongs to
  const isPoll = ctx => ctx.sourceEvent?.type === 'every';
  const now = () => Date.now();
  ['pointerdown', 'pointermove', 'keydown', 'wheel', 'touchstart'].forEach(name =>
    addEventListener(name, () => { touchedAt = now(); }, { passive: true }));

  // A region waits while somebody types, chooses or selects in it, has changed a field and not sent it, or is told what
  // is wrong with a form. One that says data-still does not refresh at all: a form is open in it, or something that is
  // shown only once.
  const asGiven = field => (field.matches('select') ? ($$('option', field).find(one => one.defaultSelected) ?? field.options[0])?.value : field.defaultValue);
  const isBusy = region => {
    if ('still' in region.dataset) return true;
    const active = document.activeElement;
    if (region.contains(active) && active.matches(TYPED)) return true;
    if ($$(TYPED, region).some(field => field.value !== asGiven(field)) || $('form [role=alert]', region)) return true;
    const selection = getSelection();
    return !!selection && !selection.isCollapsed && region.contains(selection.anchorNode);
  };
  const live = region => !paused && document.visibilityState === 'visible' && !$('dialog[open]') && !isBusy(region)
    && (misses < MISSES || now() - lastTry >= BACK_OFF_MS) && (region.dataset.live !== 'top' || scrollY < 200);

  const heard = () => { misses = 0; heardAt = now(); $('#stale').hidden = true; };
  const missed = () => { misses += 1; if (misses >= MISSES) $('#stale').hidden = false; };

  document.addEventListener('htmx:config:request', event => {
    const ctx = event.detail.ctx;
    if (!isPoll(ctx)) return;
    const region = ctx.sourceElement;
    if (!live(region)) { event.preventDefault(); return; }
    lastTry = now();
    const known = tags.get(region);
    if (known && known.url === ctx.request.action) ctx.request.headers['If-None-Match'] = known.tag;
    if (now() - touchedAt > IDLE_MS) ctx.request.headers['X-Hermes-Poll'] = '1';
  });
  document.addEventListener('htmx:before:response', event => {
    const ctx = event.detail.ctx;
    if (!isPoll(ctx)) return;
    const status = ctx.response.status;
    if (status >= 400 && status !== 401) { missed(); event.preventDefault(); return; }
    if (isBusy(ctx.sourceElement)) { event.preventDefault(); return; }  // somebody began to type while we asked
    heard();
    if (status === 200) tags.set(ctx.sourceElement, { url: ctx.request.action, tag: ctx.response.headers.get('ETag') });
  });
  document.addEventListener('htmx:error', event => { if (event.detail.ctx && isPoll(event.detail.ctx)) missed(); else toast('The server does not answer. Nothing was changed.'); });
  document.addEventListener('htmx:after:swap', event => {
    const ctx = event.detail.ctx;
    if (!isPoll(ctx)) { $$('[data-live],#strip').forEach(region => tags.delete(region)); heard(); }
    announce();
    ageToasts();
    followDrawer();
  });

  // The row of the request that the drawer shows is marked; focus goes into the drawer, and back to the row.
  let shown = $('#drawer')?.dataset.request || '';
  const followDrawer = () => {
    const drawer = $('#drawer');
    if (!drawer) return;
    const open = drawer.dataset.request || '', rowOf = id => document.getElementById(`row-${id}`);
    $$('#rows tr[aria-selected]').forEach(row => { if (row !== rowOf(open)) row.removeAttribute('aria-selected'); });
    if (open) rowOf(open)?.setAttribute('aria-selected', 'true');
    if (open === shown) return;
    if (open) { drawer.focus({ preventScroll: true }); rowOf(open)?.scrollIntoView({ block: 'nearest' }); }
    else (document.getElementById(`link-${shown}`) || $('#rows a.rowlink'))?.focus();
    shown = open;
  };

  // Only what has changed is said aloud.
  let said = $('#strip')?.dataset.announce;
  const announce = () => {
    const text = $('#strip')?.dataset.announce;
    if (text && text !== said) { said = text; $('#announce').textContent = text; }
  };

  // A stream adds rows on top: the oldest give way. While updates are paused, nothing is added.
  document.addEventListener('htmx:sse:before:message', event => { if (paused) event.preventDefault(); });
  document.addEventListener('htmx:sse:after:message', () => {
    heard();
    $$('[data-most]').forEach(list => { while (list.children.length > +list.dataset.most) list.lastElementChild.remove(); });
  });
  document.addEventListener('htmx:sse:error', missed);
  // A form in a dialog: what it has done is seen on the page.
  document.addEventListener('htmx:before:response', event => {
    const dialog = event.detail.ctx.sourceElement.closest('dialog');
    if (!dialog) return;
    if (event.detail.ctx.response.status < 400) $$('form', dialog).forEach(form => form.reset());
    dialog.close();
  });
  // What is shown once is not shown by going back.
  addEventListener('pagehide', () => $$('[data-once]').forEach(element => element.remove()));

  // A morph leaves open what somebody has opened.
  htmx.registerExtension('hermes', {
    htmx_before_morph_attr: (element, { attrName }) => !(attrName === 'open' && element.matches('details')),
  });

  /* 3 theme, palette, dialogs, toasts ------------------------------------------------------------------------------ */
  const setTheme = () => {
    root.dataset.theme = root.dataset.theme === 'light' ? 'dark' : 'light';
    store('hermes-theme', root.dataset.theme);
    dispatchEvent(new Event('themechange'));
  };
  // A key may come between a swap and htmx's look at what is new: the link would lead away like a plain one.
  const press = link => { if (link) { htmx.process(link); link.click(); } };
  const closeDrawer = () => press($('[data-close-drawer]'));

  document.addEventListener('click', event => {
    const on = selector => event.target.closest(selector);
    if (on('[data-theme-toggle]')) setTheme();
    if (on('[data-palette]')) openPalette();
    const copy = on('[data-copy]');
    if (copy) { navigator.clipboard?.writeText(copy.dataset.copy); toast('Copied', 'ok'); }
    const opener = on('[data-dialog]');
    if (opener && $(opener.dataset.dialog)) { opener.closest('dialog')?.close(); $(opener.dataset.dialog).showModal(); event.preventDefault(); }
    on('[data-close-dialog]')?.closest('dialog').close();
    on('[data-close-toast]')?.closest('.toast').remove();
  });

  const palette = $('#palette');
  const openPalette = () => { palette.showModal(); const field = $('input', palette); field.value = ''; filter(''); field.focus(); };
  const options = () => $$('li[role=option]', palette).filter(option => !option.hidden);
  const choose = option => {
    $$('li[role=option]', palette).forEach(other => other.setAttribute('aria-selected', other === option));
    if (option) { $('input', palette).setAttribute('aria-activedescendant', option.id); option.scrollIntoView({ block: 'nearest' }); }
  };
  const filter = text => {
    $$('li[role=option]', palette).forEach(option => { option.hidden = !option.textContent.toLowerCase().includes(text.toLowerCase()); });
    $$('.heading', palette).forEach(heading => { heading.hidden = !!text; });
    choose(options()[0]);
  };
  palette?.addEventListener('input', event => filter(event.target.value));
  palette?.addEventListener('keydown', event => {
    const all = options(), at = all.findIndex(option => option.getAttribute('aria-selected') === 'true');
    if (event.key === 'ArrowDown') { choose(all[Math.min(at + 1, all.length - 1)]); event.preventDefault(); }
    if (event.key === 'ArrowUp') { choose(all[Math.max(at - 1, 0)]); event.preventDefault(); }
    if (event.key === 'Enter' && all[at]) { event.preventDefault(); $('a', all[at]).click(); }
  });
  if (/Mac|iP/.test(navigator.platform)) $$('.search-btn kbd').forEach(key => { key.textContent = '\u2318 K'; });

  // hx-confirm asks in our own dialog.
  document.addEventListener('htmx:confirm', event => {
    const { ctx, issueRequest, dropRequest } = event.detail;
    if (!ctx.confirm) return;
    event.preventDefault();
    const dialog = $('#confirm'), button = $('button', ctx.sourceElement) || ctx.sourceElement;
    $('#confirm-text').textContent = ctx.confirm;
    $('#confirm-yes').textContent = button.textContent.trim();
    dialog.returnValue = 'no';
    dialog.addEventListener('close', () => (dialog.returnValue === 'yes' ? issueRequest() : dropRequest()), { once: true });
    dialog.showModal();
  });

  const toast = (text, kind = 'bad') => {
    const box = document.createElement('div'), words = document.createElement('span');
    box.className = `toast ${kind}`;
    box.dataset.toast = '5';
    words.textContent = text;
    box.append(words);
    $('#toasts').append(box);
    ageToasts();
  };
  const ageToasts = () => $$('.toast[data-toast]').forEach(box => {
    const left = +box.dataset.toast;
    delete box.dataset.toast;
    setTimeout(() => box.remove(), left * 1000);
  });

  /* 4 keyboard. Single keys can be switched off (WCAG 2.1.4) --------------------------------------------------------- */
  const goto = JSON.parse(document.body.dataset.goto || '{}');
  const singleKeys = $('[data-keys]');
  if (singleKeys) {
    singleKeys.checked = stored('hermes-keys') !== 'off';
    singleKeys.addEventListener('change', () => store('hermes-keys', singleKeys.checked ? 'on' : 'off'));
  }
  let wantsGo = false;
  const moveRow = by => {
    const rows = $$('main tr.hit a.rowlink'), at = rows.indexOf(document.activeElement);
    rows[Math.max(0, Math.min(rows.length - 1, at + by))]?.focus();
  };
  const KEYS = {
    '/': () => { const field = $('main input[type=search]'); if (field) field.focus(); else openPalette(); },
    '.': () => { paused = !paused; tick(); },
    '?': () => $('#keys').showModal(),
    j: () => moveRow(1), k: () => moveRow(-1), t: setTheme, e: () => $('[data-export]')?.click(),
    ArrowUp: () => press($('#drawer [data-newer]')), ArrowDown: () => press($('#drawer [data-older]')),
  };
  const ARROWS = ['ArrowUp', 'ArrowDown'];
  document.addEventListener('keydown', event => {
    if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === 'k') { event.preventDefault(); if (!palette.open) openPalette(); return; }
    if (event.key === 'Escape' && !$('dialog[open]')) { closeDrawer(); return; }
    if (stored('hermes-keys') === 'off' || event.metaKey || event.ctrlKey || event.altKey) return;
    if (event.target.closest('input,select,textarea,dialog')) return;
    if (wantsGo && goto[event.key]) { location.href = goto[event.key]; return; }
    wantsGo = event.key === 'g';
    if (wantsGo) setTimeout(() => { wantsGo = false; }, 900);
    if (ARROWS.includes(event.key) && !event.target.matches('#drawer.opened')) return;
    if (KEYS[event.key]) { event.preventDefault(); KEYS[event.key](); }
  });

  /* 5 clocks: text only, never announced ----------------------------------------------------------------------------- */
  const counts = new WeakMap();                  // where a countdown began, and at which value
  const ago = seconds => (seconds < 60 ? `${seconds} s` : seconds < 3600 ? `${Math.floor(seconds / 60)} min`
    : seconds < 86400 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`);
  const tick = () => {
    const seconds = Math.round((now() - heardAt) / 1000), label = $('#updated');
    if (label) label.textContent = paused ? 'Paused' : seconds < 2 ? 'Updated now' : `Updated ${seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`} ago`;
    if (paused) return;
    const at = now();
    $$('time[data-ago]').forEach(node => {
      if (!counts.has(node)) counts.set(node, { at: at - 1000 * node.dataset.ago });
      const text = ago(Math.round((at - counts.get(node).at) / 1000));
      if (node.textContent !== text) node.textContent = text;
    });
    $$('[data-count]').forEach(node => {
      const given = node.dataset.count, known = counts.get(node);
      if (!known || known.given !== given) counts.set(node, { given, at: now() });
      const { at } = counts.get(node);
      node.textContent = Math.max(0, +given - Math.floor((now() - at) / 1000));
    });
  };
  setInterval(tick, 1000);
  ageToasts();
})();
