"""Tests planting.py: a statement is found in its function, in any layout, and nowhere else."""
import tempfile
import unittest
from pathlib import Path

from planting import NotPlanted, planted

CODE = """
int helper(int a) { return a; }

void Plan::add(int a) {
  // total += a;
  if (a > 0)
    total += helper(a);
}

void Plan::take(int a) {
  total -= helper(a);
  if (a > 0) total += helper(a);
}
"""


class PlantingTest(unittest.TestCase):
    def plant(self, *lines, code=CODE):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "plan.cc").write_text(code)
            return planted(Path(folder), "\n".join(("What it models.", "", *lines)))["plan.cc"]

    def test_a_statement_is_replaced_in_its_function_alone(self):
        code = self.plant("plan.cc: Plan::take", "-total += helper(a);", "+total = helper(a);")
        self.assertEqual(code, CODE.replace("if (a > 0) total += helper(a);", "if (a > 0) total = helper(a);"))

    def test_line_breaks_do_not_count(self):
        code = self.plant("plan.cc: Plan::add", "-if (a > 0) total += helper(a);", "+total += a;")
        self.assertIn("  // total += a;\n  total += a;\n}", code)

    def test_edits_are_made_to_the_code_as_it_was(self):
        code = self.plant("plan.cc: Plan::take", "-total -= helper(a);", "+total += helper(a);",
                          "plan.cc: Plan::take", "-if (a > 0) total += helper(a);", "+;")
        self.assertEqual(code.count("total += helper(a);"), 2)

    def test_what_is_not_there_once_is_refused(self):
        for function, statement, times in (("Plan::add", "total -= helper(a);", 0), ("Plan::take", "helper(a)", 2),
                                           ("Plan::gone", "total += helper(a);", 0)):
            with self.assertRaisesRegex(NotPlanted, f"{times} times"):
                self.plant(f"plan.cc: {function}", f"-{statement}", "+;")
        with self.assertRaisesRegex(NotPlanted, "not there"):
            self.plant("other.cc: Plan::add", "-a", "+b")

    def test_a_call_is_no_definition(self):
        with self.assertRaisesRegex(NotPlanted, "0 times"):
            self.plant("plan.cc: helper", "-total -= helper(a);", "+;")


if __name__ == "__main__":
    unittest.main()
