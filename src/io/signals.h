/*
 * The signals that ask a program for something: SIGHUP (look again) and those that end it. A program that serves holds them back
 * from its first line until it listens, so that one that comes early is carried out later, instead of ending the process.
 */
#pragma once

/* From here on they wait, in the threads that are made from here on for good. A program that is executed inherits that. */
void signals_hold(void);

/* They are listened to: those that waited come now. */
void signals_release(void);
