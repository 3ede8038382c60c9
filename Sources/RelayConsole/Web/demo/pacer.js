// The pace of the tour: its speed, Pause and Next.

import { pause } from "./world.js";

/**
 * By speed: the factor of pauses inside a scene, and milliseconds to read a scene's result.
 * @type {Record<string, [factor: number, rest: number]>}
 */
const SPEEDS = { slow: [8, 6000], normal: [4, 2500], fast: [1, 0] };

export class Pacer extends EventTarget {
  constructor() {
    super();
    this.speed = "normal";
    this.isPaused = false;
    this.isSkipping = false;
  }

  /** Stops at the next pause of the tour, or continues from there. */
  toggle() {
    this.isPaused = !this.isPaused;
    this.#changed();
  }

  /** Goes on to the end of the current scene, or begins the next one. A paused tour then stops again. */
  next() {
    this.isSkipping = true;
    this.#changed();
  }

  setSpeed(speed) {
    this.speed = speed;
    this.#changed();
  }

  /** Waits inside a scene. Scenes need the unscaled pause at any speed. */
  async step(milliseconds) {
    await pause(milliseconds);
    await this.#wait(() => milliseconds * (SPEEDS[this.speed][0] - 1));
  }

  /** Waits between two scenes. */
  async betweenScenes() {
    this.isSkipping = false;
    await this.#wait(() => SPEEDS[this.speed][1]);
    this.isSkipping &&= this.isPaused;
  }

  /** @param {() => number} length In milliseconds; changes with the speed. */
  async #wait(length) {
    const start = performance.now();
    const left = () => start + length() - performance.now();
    while (!this.isSkipping && (this.isPaused || left() > 0)) {
      await new Promise((resolve) => {
        const timer = this.isPaused ? undefined : setTimeout(resolve, left());
        this.addEventListener("change", () => { clearTimeout(timer); resolve(undefined); }, { once: true });
      });
    }
  }

  #changed() { this.dispatchEvent(new Event("change")); }
}
