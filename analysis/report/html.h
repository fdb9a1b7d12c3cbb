/**
 * A report (JSON, see ../README.md) as one self-contained page: verdict, findings, plots, tables. It opens from disk and
 * loads nothing.
 *
 *     char *page = report_html(report);
 *
 * What is in html/ makes the page; html/embed.py joins it into these parts when the program is built.
 */
#ifndef ANALYSIS_REPORT_HTML_H
#define ANALYSIS_REPORT_HTML_H

#include <jansson.h>

/** Parts of the page: the text goes after the first, the report after the second. */
extern const char report_page_before_text[], report_page_between[], report_page_after_report[];

/**
 * Never NULL; the caller frees it with g_free(). Plots need the report's `series`. Names in a report come from whoever was
 * traced: none of them can end the element it stands in, and no script but the page's own runs (content security policy).
 *
 * Source: HTML, 13.2.5.4 (a script's data ends at "</script", and "<!--" changes how it does); ECMA-404 (\u003c is "<").
 */
char *report_html(const json_t *report);

#endif
