"""python -m agrlearn"""

from agrlearn.cli import main

main()
