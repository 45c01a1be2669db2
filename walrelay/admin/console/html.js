// What renders the page. Text is always a text node: nothing here makes markup of data.
export {
  html, render, createContext, useContext, useEffect, useErrorBoundary, useLayoutEffect, useMemo, useRef, useState,
} from "./vendor/htm/standalone.module.js";
