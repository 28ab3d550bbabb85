package org.hawser;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A JSON parser and writer, for programs without a JSON library. Hawser's reports are JSON texts, and the JDK
 * has no parser. Objects become a {@link Map}, arrays a {@link List}, strings a {@link String}, integers a
 * {@link Long}, other numbers a {@link Double}; true, false and null become Boolean values and null.
 */
public final class Json {
  private static final int DEEPEST = 500;

  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  /**
   * Parses a text.
   *
   * @throws IllegalArgumentException with the index at which the text is not JSON
   */
  public static Object parse(String text) {
    Json json = new Json(text);
    Object value = json.value(0);
    json.skipSpace();
    if (json.at < text.length()) throw json.wrong("the end");
    return value;
  }

  /**
   * Writes a value: a Map with String keys, an Iterable, a CharSequence, a Number, a Boolean or null.
   *
   * @throws IllegalArgumentException for anything else
   */
  public static String write(Object value) {
    StringBuilder out = new StringBuilder();
    write(value, out);
    return out.toString();
  }

  private static void write(Object value, StringBuilder out) {
    if (value instanceof Map<?, ?> map) {
      String before = "{";
      for (Map.Entry<?, ?> entry : map.entrySet()) {
        out.append(before);
        quote(String.valueOf(entry.getKey()), out);
        out.append(':');
        write(entry.getValue(), out);
        before = ",";
      }
      out.append(map.isEmpty() ? "{}" : "}");
    } else if (value instanceof Iterable<?> items) {
      String before = "";
      out.append('[');
      for (Object item : items) {
        out.append(before);
        write(item, out);
        before = ",";
      }
      out.append(']');
    } else if (value instanceof CharSequence text) {
      quote(text, out);
    } else if (value instanceof Double || value instanceof Float) {
      if (!Double.isFinite(((Number) value).doubleValue())) {
        throw new IllegalArgumentException("JSON has no " + value + ": write null, or a string");
      }
      out.append(value);
    } else if (value == null || value instanceof Number || value instanceof Boolean) {
      out.append(value);
    } else {
      throw new IllegalArgumentException("JSON has no " + value.getClass().getName() + ": write a Map, a List or a String");
    }
  }

  private static void quote(CharSequence text, StringBuilder out) {
    out.append('"');
    for (int i = 0; i < text.length(); ++i) {
      char c = text.charAt(i);
      if (c == '"' || c == '\\') out.append('\\').append(c);
      else if (c < ' ') out.append(String.format("\\u%04x", (int) c));
      else out.append(c);
    }
    out.append('"');
  }

  private Object value(int depth) {
    if (depth > DEEPEST) throw wrong("at most " + DEEPEST + " levels");
    skipSpace();
    if (at == text.length()) throw wrong("a value");
    return switch (text.charAt(at)) {
      case '{' -> object(depth);
      case '[' -> array(depth);
      case '"' -> string();
      case 't' -> word("true", true);
      case 'f' -> word("false", false);
      case 'n' -> word("null", null);
      default -> number();
    };
  }

  private Map<String, Object> object(int depth) {
    Map<String, Object> map = new LinkedHashMap<>();
    ++at;
    if (next('}')) return map;
    do {
      skipSpace();
      if (at == text.length() || text.charAt(at) != '"') throw wrong("a key in quotes");
      String key = string();
      if (!next(':')) throw wrong("':'");
      map.put(key, value(depth + 1));
    } while (next(','));
    if (!next('}')) throw wrong("',' or '}'");
    return map;
  }

  private List<Object> array(int depth) {
    List<Object> items = new ArrayList<>();
    ++at;
    if (next(']')) return items;
    do items.add(value(depth + 1));
    while (next(','));
    if (!next(']')) throw wrong("',' or ']'");
    return items;
  }

  private String string() {
    StringBuilder out = new StringBuilder();
    for (++at; at < text.length(); ++at) {
      char c = text.charAt(at);
      if (c == '"') {
        ++at;
        return out.toString();
      }
      if (c < ' ') throw wrong("an escape instead of a control character");
      out.append(c == '\\' ? escape() : c);
    }
    throw wrong("'\"'");
  }

  private char escape() {
    if (++at == text.length()) throw wrong("an escape");
    char c = text.charAt(at);
    int index = "bfnrt".indexOf(c);
    if (index >= 0) return "\b\f\n\r\t".charAt(index);
    if (c == '"' || c == '\\' || c == '/') return c;
    if (c != 'u' || at + 4 >= text.length()) throw wrong("an escape");
    int code = 0;
    for (int i = 0; i < 4; ++i) {
      int digit = Character.digit(text.charAt(++at), 16);
      if (digit < 0) throw wrong("four hexadecimal digits");
      code = 16 * code + digit;
    }
    return (char) code;
  }

  private Object word(String word, Object value) {
    if (!text.startsWith(word, at)) throw wrong("a value");
    at += word.length();
    return value;
  }

  private Number number() {
    int begin = at;
    while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) ++at;
    String digits = text.substring(begin, at);
    if (!digits.matches("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?")) {
      at = begin;
      throw wrong("a value");
    }
    try {
      return Long.valueOf(digits);
    } catch (NumberFormatException fraction) {
      return Double.valueOf(digits);
    }
  }

  private boolean next(char c) {
    skipSpace();
    if (at == text.length() || text.charAt(at) != c) return false;
    ++at;
    return true;
  }

  private void skipSpace() {
    while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) ++at;
  }

  private IllegalArgumentException wrong(String expected) {
    return new IllegalArgumentException("not JSON: at index " + at + " of " + text.length() + ", expected " + expected);
  }
}
