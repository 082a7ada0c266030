// SPDX-License-Identifier: Apache-2.0
// The token of OpenStack Identity, where the API needs one. The page sends nothing to another server, so it cannot ask
// for one with a name and a password.

import { setToken } from "./api.js";
import { wakeAll } from "./polling.js";
import { html, useState } from "./vendor.js";

export function TokenForm({ error }) {
  const [value, setValue] = useState("");
  const submit = (event) => {
    event.preventDefault();
    setToken(value.trim());
    wakeAll();
  };
  return html`<form class="failure" onSubmit=${submit}>
    <p role="alert"><strong>A token is needed.</strong> ${error.message}</p>
    <p>The command <code>openstack token issue -f value -c id</code> prints one. This tab keeps it until it is closed.</p>
    <label>Token <input type="password" autocomplete="off" required value=${value}
      onInput=${(event) => setValue(event.target.value)} /></label>
    <button type="submit">Use this token</button>
  </form>`;
}

export function ForgetToken() {
  const forget = () => {
    setToken(null);
    wakeAll();
  };
  return html`<button type="button" onClick=${forget}>Forget the token</button>`;
}
